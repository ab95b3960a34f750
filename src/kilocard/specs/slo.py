"""The latency promise that a service makes, and that goodput is counted against."""

from typing import Self

from pydantic import BaseModel, ConfigDict, PositiveFloat, model_validator


class SLO(BaseModel):
    """Limits that 99 of 100 requests must meet; one request is good when it meets all of them.

    Seconds. A limit left out does not bind. Sources of common values: MLPerf inference
    (Llama-3.1-8B: TTFT 2 s, TPOT 0.1 s; interactive 0.5 s, 0.03 s).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ttft_p99_s: PositiveFloat | None = None
    tpot_p99_s: PositiveFloat | None = None
    e2e_p99_s: PositiveFloat | None = None

    @model_validator(mode="after")
    def _at_least_one_limit(self) -> Self:
        if self.ttft_p99_s is None and self.tpot_p99_s is None and self.e2e_p99_s is None:
            raise ValueError("an SLO needs at least one of ttft_p99_s, tpot_p99_s, e2e_p99_s")
        return self
