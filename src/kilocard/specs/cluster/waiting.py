"""Who waits at a gateway: three classes of requests, one bounded line, and how age counts."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AliasChoices, Field, model_validator

from kilocard.specs.numbers import MOST_SECONDS, Number, Seconds, Whole
from kilocard.specs.written import Written

CLASSES = ("interactive", "async", "batch")
"""By rank: 0 goes first."""
MOST_WAITING = 1_000_000


class WaitingClass(Written):
    """A request that would wait longer than this is refused at once; 0: it never waits."""

    max_wait_s: Annotated[Number, Field(ge=0, le=MOST_SECONDS)]


class Classes(Written):
    """The three classes, each with what its users bear."""

    interactive: WaitingClass = WaitingClass(max_wait_s=10)
    async_: WaitingClass = Field(
        default=WaitingClass(max_wait_s=60),
        validation_alias=AliasChoices("async", "async_"),
        serialization_alias="async",
    )
    batch: WaitingClass = WaitingClass(max_wait_s=600)

    @property
    def by_rank(self) -> tuple[WaitingClass, ...]:
        """Interactive, async, batch."""
        return self.interactive, self.async_, self.batch


class Queue(Written):
    """The line before a pool: at most `limit` wait, of all gateways together (0: nobody waits, what finds no
    room is refused). A request goes as if it had come rank x `ageing_s` later than it did, so that a batch
    request waits 2 x `ageing_s` behind interactive ones and no longer."""

    limit: Annotated[Whole, Field(ge=0, le=MOST_WAITING)] = 1024
    ageing_s: Seconds = 30.0


class Waiting(Written):
    """The parts of a gateway's section that tell of waiting, and must agree."""

    queue: Queue = Queue()
    classes: Classes = Classes()

    @model_validator(mode="after")
    def _nobody_gives_up_before_ageing_helps(self) -> Self:
        for rank, (name, its) in enumerate(zip(CLASSES, self.classes.by_rank, strict=True)):
            if 0 < its.max_wait_s <= rank * self.queue.ageing_s:
                raise ValueError(
                    f"classes.{name}.max_wait_s {its.max_wait_s:g} is not over {rank} x queue.ageing_s "
                    f"{self.queue.ageing_s:g}: it would be refused before its age lets it go; raise the one "
                    "or lower the other"
                )
        return self
