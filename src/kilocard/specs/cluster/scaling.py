"""How many replicas a pool has, by what they do: fast up, slow down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from kilocard.specs.cluster.parts import SomeShare
from kilocard.specs.numbers import Count, Seconds
from kilocard.specs.written import Written

MOST_STEP = 1000


class Up(Written):
    """`step` more when requests in flight are over `utilization` of the caps and the line has grown for
    `grows_s`."""

    utilization: SomeShare = 0.85
    grows_s: Seconds = 30.0
    step: Annotated[Count, Field(le=MOST_STEP)] = 1


class Down(Written):
    """`step` fewer when requests in flight were under `utilization` of the caps for `for_s`."""

    utilization: SomeShare = 0.30
    for_s: Seconds = 1800.0
    step: Annotated[Count, Field(le=MOST_STEP)] = 1


class Scaling(Written):
    """Between `least` and `most` replicas. KEDA (or Ray Serve) scales by it; `kilocard up` does not, and runs
    as many as `replicas` says. `cold_start_s` is how long a new one takes until it serves: no second step up
    is decided before."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "min": "did you mean 'least'?",
        "max": "did you mean 'most'?",
        "min_warm": "it stands in the pool",
        "qps": "requests a second tell nothing of load where one costs a hundred times another: utilization "
        "of the caps does",
    }

    least: Count
    most: Count
    up: Up = Up()
    down: Down = Down()
    cold_start_s: Seconds = 300.0

    @model_validator(mode="after")
    def _up_is_over_down(self) -> Self:
        if self.most < self.least:
            raise ValueError(f"most {self.most} is under least {self.least}: raise it")
        if self.down.utilization >= self.up.utilization:
            raise ValueError(
                f"down.utilization {self.down.utilization:g} is not under up.utilization "
                f"{self.up.utilization:g}: the pool would go up and down without end"
            )
        return self
