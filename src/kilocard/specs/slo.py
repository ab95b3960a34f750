"""The latency promise that a service makes, and that goodput is counted against."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import AliasChoices, Field, model_validator

from kilocard.specs.numbers import WithinADay
from kilocard.specs.written import Written

LIMITS = ("ttft", "tpot", "e2e")


def _spellings(limit: str) -> tuple[str, ...]:
    return f"{limit}_p99_s", f"{limit}_s", limit


def _limit(name: str) -> Any:
    """A limit that may also be written without its `p99`."""
    return Field(default=None, validation_alias=AliasChoices(*_spellings(name)))


class SLO(Written):
    """Limits that 99 of 100 requests must meet; one request is good when it meets all of them.

    Seconds. A limit left out does not bind. Sources of common values: MLPerf inference
    (Llama-3.1-8B: TTFT 2 s, TPOT 0.1 s; interactive 0.5 s, 0.03 s).
    """

    ttft_p99_s: WithinADay | None = _limit("ttft")
    tpot_p99_s: WithinADay | None = _limit("tpot")
    e2e_p99_s: WithinADay | None = _limit("e2e")

    @model_validator(mode="before")
    @classmethod
    def _each_limit_once(cls, raw: Any) -> Any:
        for limit in LIMITS if isinstance(raw, Mapping) else ():
            given = [name for name in _spellings(limit) if name in raw]
            if len(given) > 1:
                raise ValueError(f"{', '.join(given)} are one limit: give one of them")
        return raw

    @model_validator(mode="after")
    def _at_least_one_limit(self) -> Self:
        if self.ttft_p99_s is None and self.tpot_p99_s is None and self.e2e_p99_s is None:
            raise ValueError("an SLO needs at least one of ttft_p99_s, tpot_p99_s, e2e_p99_s")
        return self
