"""A place for one engine, what is seen of it, and what may be ordered for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kilocard.errors import KilocardError


class Phase(StrEnum):
    """Where the engine of a slot is in its life. A slot that is given up is started no more by itself."""

    EMPTY = "empty"
    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    STOPPING = "stopping"
    GIVEN_UP = "given up"


class Order(StrEnum):
    """What is to be done for a slot: start what it wants; send to it; send nothing new; end it; end it by
    force."""

    START = "start"
    ADMIT = "admit"
    RETIRE = "retire"
    STOP = "stop"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class Rules:
    """Seconds and counts of a cluster file's `lifecycle`, for one slot."""

    ready_within_s: float = 1800.0
    drain_s: float = 600.0
    back_off_s: float = 1.0
    most_back_off_s: float = 60.0
    most_deaths: int = 5
    deaths_within_s: float = 600.0
    most_misses: int = 6
    most_stop_s: float = 720.0

    def __post_init__(self) -> None:
        if self.most_deaths < 1:
            raise KilocardError(f"most_deaths is {self.most_deaths}: a slot dies once before it is given up")
        if not 0 < self.back_off_s <= self.most_back_off_s:
            raise KilocardError(
                f"back_off_s {self.back_off_s:g} is not over 0 and at most {self.most_back_off_s:g}"
            )


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a slot's engine tells: whether its process lives, whether it has answered as often as
    it must, how many requests the gateways have in flight at it, and how often in a row it gave no sign."""

    is_alive: bool = False
    is_ready: bool = False
    in_flight: int = 0
    misses: int = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for one engine. Settings are told by their digest, "" for none; times are seconds on a clock
    that all of a machine's processes share."""

    name: str
    pool: str
    wants: str = ""
    """The settings that it shall run; "": it shall be empty."""
    runs: str = ""
    """Those of the engine that is in it."""
    phase: Phase = Phase.EMPTY
    since_s: float = 0.0
    """When the phase began."""
    started_s: float = 0.0
    """When the engine in it was started."""
    deaths_s: tuple[float, ...] = ()
    """When its engines died, of late."""
    gave_up_on: str = ""
    """The settings with which it died so often."""
    is_due: bool = False
    """It shall be started anew though its settings are the same."""

    def now_in(self, phase: Phase, now_s: float) -> Slot:
        """The slot in its next phase."""
        return replace(self, phase=phase, since_s=now_s)

    def wanting(self, settings: str) -> Slot:
        """The slot that shall run these settings; deaths with others are no matter of theirs."""
        if settings == self.wants:
            return self
        kept = () if self.phase is Phase.EMPTY else self.deaths_s
        return replace(self, wants=settings, deaths_s=kept)

    @property
    def is_outdated(self) -> bool:
        """Whether the engine in it has to go."""
        return self.is_due or self.runs != self.wants
