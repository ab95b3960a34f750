"""How engines come, go and change: readiness, draining, rolling out, canaries, restarts, crashes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from kilocard.specs.cluster.health import InARow
from kilocard.specs.cluster.parts import MOST_REPLICAS, Share, SomeShare
from kilocard.specs.numbers import MOST_SECONDS, Count, Number, Positive, Seconds, Tokens
from kilocard.specs.written import Written

MOST_ROLL_SHARE = 0.25
"""Of a pool, at once: the sources' rule, and what 1.25 x planned capacity bears."""
MOST_SAMPLES = 1000
LONGEST_PROMPT = 100_000
MOST_TRIED = 1_000_000
Ratio = Annotated[Number, Field(gt=1, le=100)]


class Ready(Written):
    """An engine is ready when it has finished `successes` tiny completions in a row, asked of it every
    `every_s`. One that is not after `within_s` is stopped, and counts as crashed."""

    within_s: Seconds = 1800.0
    every_s: Seconds = 1.0
    successes: InARow = 2


class Roll(Written):
    """A change goes through a pool in batches of max(1, `share` of it); each is watched for `verify_s`
    before the next."""

    share: Annotated[SomeShare, Field(le=MOST_ROLL_SHARE)] = MOST_ROLL_SHARE
    verify_s: Annotated[Number, Field(ge=0, le=MOST_SECONDS)] = 10.0


class Sample(Written):
    """A prompt whose answer is known well enough to be checked: a text that is in it, a pattern that is found
    in it, or that it is JSON."""

    prompt: Annotated[str, Field(min_length=1, max_length=LONGEST_PROMPT)]
    max_tokens: Tokens = 32
    contains: str | None = None
    matches: str | None = None
    is_json: bool = False

    @model_validator(mode="after")
    def _something_is_checked(self) -> Self:
        if self.contains is None and self.matches is None and not self.is_json:
            raise ValueError("a sample checks its answer: give contains, matches or is_json: true")
        if self.matches is not None:
            try:
                re.compile(self.matches)
            except re.error as error:
                raise ValueError(f"matches is no pattern: {error}") from None
        return self


class CanaryChecks(Written):
    """How a changed version is tried: `replicas` of it get `share` of the requests until each has served
    `least_requests`, or for `within_s`, if a few requests came by then or samples are given: of silence alone
    nobody learns that it is good.

    It is rolled back when more than `most_errors` of its requests fail by its own fault, when its median TTFT
    or TPOT is over `slower_ratio` x the others' of the same time, or when fewer than `least_good` of the
    samples are answered well.
    """

    replicas: Annotated[Count, Field(le=MOST_REPLICAS)] = 1
    share: SomeShare = 0.05
    least_requests: Annotated[Count, Field(le=MOST_TRIED)] = 50
    within_s: Seconds = 600.0
    most_errors: Share = 0.01
    slower_ratio: Ratio = 1.3
    samples: tuple[Sample, ...] = Field(default=(), max_length=MOST_SAMPLES)
    least_good: SomeShare = 1.0


def _clock(value: Any) -> Any:
    """Minutes after midnight; YAML reads 03:30 without quotes as a number of its own."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        return f"{value // 60:02d}:{value % 60:02d}"
    return value


TimeOfDay = Annotated[str, BeforeValidator(_clock), Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]


class Restarts(Written):
    """Each engine is started anew, drained first, when it has run for `every_h` hours and it is between
    `begin` and `end` (UTC): in the low hours, one batch of the roll at a time."""

    every_h: Annotated[Positive, Field(le=24 * 365)] = 168.0
    begin: TimeOfDay = "02:00"
    end: TimeOfDay = "05:00"

    @model_validator(mode="after")
    def _there_is_time(self) -> Self:
        if self.begin == self.end:
            raise ValueError(f"begin and end are both {self.begin}: leave an hour between them")
        return self

    def is_open(self, minute: int) -> bool:
        """Whether this minute of the day, UTC, is one of the low hours."""
        begin, end = _minutes(self.begin), _minutes(self.end)
        return begin <= minute < end if begin < end else minute >= begin or minute < end


def _minutes(time: str) -> int:
    return 60 * int(time[:2]) + int(time[3:])


class Crashes(Written):
    """An engine that dies is started anew after `back_off_s`, twice as late each time, `most_back_off_s` at
    the most. After `most` deaths within `within_s` it is given up until its settings change or an operator
    says so: what dies at every start is not mended by starting it."""

    back_off_s: Seconds = 1.0
    most_back_off_s: Seconds = 60.0
    most: InARow = 5
    within_s: Seconds = 600.0

    @model_validator(mode="after")
    def _it_grows(self) -> Self:
        if self.most_back_off_s < self.back_off_s:
            raise ValueError(
                f"most_back_off_s {self.most_back_off_s:g} is under back_off_s {self.back_off_s:g}: raise it"
            )
        return self


class Lifecycle(Written):
    """What holds while engines come and go.

    Before an engine is stopped nothing new is sent to it and what it holds is finished, for `drain_s` at the
    most; then it gets SIGTERM, and `stop_s` until it is killed. One that gives no sign of life for a minute
    is ended as if it had crashed.

    A gateway finishes what it holds, too, and is ended before the next is started: of several behind the
    balancer one after the other, which nobody notices. While the only one is replaced, nobody is let in.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "min_warm": "it stands in a pool",
        "probe": "health of a serving engine stands in gateway.health",
        "restart": "did you mean 'restarts'?",
    }

    ready: Ready = Ready()
    drain_s: Seconds = 600.0
    stop_s: Seconds = 30.0
    roll: Roll = Roll()
    canary: CanaryChecks | None = CanaryChecks()
    restarts: Restarts | None = None
    crashes: Crashes = Crashes()
