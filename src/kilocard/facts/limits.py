"""The limits of the numbers in a row, checked where a row is read: a boolean or NaN is no number."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

LARGEST = 10**9
MOST_LAYERS = 10_000
SMALLEST_RATE = 1e-6

Flag = Annotated[bool, Field(strict=True)]
Size = Annotated[int, Field(strict=True, ge=1, le=LARGEST)]
SizeOrZero = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]
Layers = Annotated[int, Field(strict=True, ge=1, le=MOST_LAYERS)]
Rate = Annotated[float, Field(strict=True, ge=SMALLEST_RATE, lt=LARGEST, allow_inf_nan=False)]
RateOrZero = Annotated[float, Field(strict=True, ge=0, lt=LARGEST, allow_inf_nan=False)]
