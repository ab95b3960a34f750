"""The latency promise that a service makes, and that goodput is counted against."""

from typing import Any, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PositiveFloat, model_validator


def _limit(name: str) -> Any:
    """A limit that may also be written without its `p99`."""
    names = AliasChoices(f"{name}_p99_s", f"{name}_s", name)
    return Field(default=None, validation_alias=names)


class SLO(BaseModel):
    """Limits that 99 of 100 requests must meet; one request is good when it meets all of them.

    Seconds. A limit left out does not bind. Sources of common values: MLPerf inference
    (Llama-3.1-8B: TTFT 2 s, TPOT 0.1 s; interactive 0.5 s, 0.03 s).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True)

    ttft_p99_s: PositiveFloat | None = _limit("ttft")
    tpot_p99_s: PositiveFloat | None = _limit("tpot")
    e2e_p99_s: PositiveFloat | None = _limit("e2e")

    @model_validator(mode="after")
    def _at_least_one_limit(self) -> Self:
        if self.ttft_p99_s is None and self.tpot_p99_s is None and self.e2e_p99_s is None:
            raise ValueError("an SLO needs at least one of ttft_p99_s, tpot_p99_s, e2e_p99_s")
        return self
