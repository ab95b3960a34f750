"""Numbers as users write them: finite, and never a `true` that would count as 1."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")
    return value


Whole = Annotated[int, BeforeValidator(_no_truth)]
Number = Annotated[float, BeforeValidator(_no_truth), Field(allow_inf_nan=False)]
Count = Annotated[Whole, Field(gt=0)]
Positive = Annotated[Number, Field(gt=0)]

LEAST_SECONDS, MOST_SECONDS = 0.001, 86_400
MOST_TOKENS, MOST_SEQUENCES = 10_000_000, 65_536

Seconds = Annotated[Number, Field(ge=LEAST_SECONDS, le=MOST_SECONDS)]
WithinADay = Annotated[Positive, Field(le=MOST_SECONDS)]
"""Seconds, as few as one likes."""
Tokens = Annotated[Count, Field(le=MOST_TOKENS)]
Sequences = Annotated[Count, Field(le=MOST_SEQUENCES)]
"""That an engine runs at once."""
