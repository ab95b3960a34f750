"""When a replica is up, slow or down, and how its weight follows what it does."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from kilocard.specs.cluster.parts import SomeShare
from kilocard.specs.numbers import MOST_SECONDS, Count, Number, Seconds
from kilocard.specs.written import Written

MOST_IN_A_ROW = 100
InARow = Annotated[Count, Field(le=MOST_IN_A_ROW)]


class Probe(Written):
    """A tiny real completion, every `every_s` of a replica over all gateways together. So many failures in a
    row are down, so many successes up again. A busy engine answers late: `timeout_s` is long, and it is not
    dead."""

    every_s: Seconds = 10.0
    timeout_s: Seconds = 30.0
    failures: InARow = 3
    successes: InARow = 2


class Slow(Written):
    """A replica is slow when its TPOT was over `ratio` x its pool's median and over `floor_s` for `hold_s`.
    It gets `share` of its part until it was under `recovered_ratio` again for `calm_s`. Of a pool at most
    `most_share` is slow or down by this rule: when all are slow, none is."""

    ratio: Annotated[Number, Field(gt=1, le=100)] = 2.0
    recovered_ratio: Annotated[Number, Field(gt=1, le=100)] = 1.5
    floor_s: Annotated[Number, Field(ge=0, le=60)] = 0.02
    hold_s: Annotated[Number, Field(ge=0, le=MOST_SECONDS)] = 3.0
    calm_s: Annotated[Number, Field(ge=0, le=MOST_SECONDS)] = 10.0
    share: SomeShare = 0.2
    most_share: SomeShare = 0.3

    @model_validator(mode="after")
    def _what_recovered_is_not_slow(self) -> Self:
        if self.recovered_ratio >= self.ratio:
            raise ValueError(
                f"recovered_ratio {self.recovered_ratio:g} is not under ratio {self.ratio:g}: a replica "
                "would go in and out with every token"
            )
        return self


class Health(Written):
    """Probes; failures in a row of real requests that are the engine's own fault; slowness. Each gateway
    reads what a replica's /metrics tells of its KV cache every `metrics_every_s`; 0: it is not read."""

    probe: Probe = Probe()
    failures: InARow = 5
    slow: Slow = Slow()
    metrics_every_s: Annotated[Number, Field(ge=0, le=MOST_SECONDS)] = 5.0


class Weights(Written):
    """With `adaptive`, weights follow each replica's own recent P95 of seconds a token and its use, every
    `every_s`, never under `least` of the file's. For policies that count requests alone: least-delay and
    expected-wait see a replica's pace by themselves, and would count it twice."""

    adaptive: bool = False
    every_s: Seconds = 10.0
    least: SomeShare = 0.2
