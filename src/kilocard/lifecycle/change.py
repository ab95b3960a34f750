"""A pool's way from one setting to another: tried on a canary, rolled out, or taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kilocard.lifecycle.canary import Verdict
from kilocard.lifecycle.slot import Phase, Slot

MOST_CANARY_DEATHS = 2
"""A canary that dies so often was not unlucky."""


class Stage(StrEnum):
    """Where a change is. What is taken back is not tried again until the file says something else."""

    STEADY = "steady"
    TRYING = "trying"
    ROLLING = "rolling"
    RETURNING = "returning"


@dataclass(frozen=True, slots=True)
class Change:
    """What a pool runs, and what it is on its way to. Settings are told by their digest."""

    target: str
    """What is known to serve."""
    candidate: str = ""
    stage: Stage = Stage.STEADY
    since_s: float = 0.0
    judged_since_s: float | None = None
    """Since when every canary serves."""
    refused: tuple[str, ...] = ()
    reason: str = ""
    """Why the last change went on, or was taken back."""


def propose(change: Change, settings: str, has_canary: bool, now_s: float) -> Change:
    """A file that says these settings was read."""
    if settings in (change.candidate or change.target, *change.refused):
        return change
    if settings == change.target:
        return _back(change, now_s, "the file says again what runs")
    stage = Stage.TRYING if has_canary else Stage.ROLLING
    return replace(
        change, candidate=settings, stage=stage, since_s=now_s, judged_since_s=None, refused=(), reason=""
    )


def advance(
    change: Change, slots: Sequence[Slot], verdict: Verdict, reason: str, canaries: int, now_s: float
) -> Change:
    """A change after one look at its pool's slots, and at how its canaries are judged."""
    own = [slot for slot in slots if change.candidate and change.candidate in (slot.wants, slot.runs)]
    match change.stage:
        case Stage.TRYING:
            return _trying(change, own, verdict, reason, canaries, now_s)
        case Stage.ROLLING:
            return _rolling(change, slots, own, now_s)
        case Stage.RETURNING if all(slot.runs != change.candidate for slot in slots):
            return replace(change, candidate="", stage=Stage.STEADY, since_s=now_s)
    return change


def wanted(change: Change, slots: Sequence[Slot], canaries: int) -> list[Slot]:
    """The slots of a pool with the settings that each shall run; those that shall be empty stay so."""
    used = [slot for slot in slots if slot.wants]
    chosen = set[str]()
    if change.stage is Stage.ROLLING:
        chosen = {slot.name for slot in used}
    elif change.stage is Stage.TRYING:
        first = sorted(used, key=lambda slot: (slot.wants != change.candidate, _rank(slot)))
        chosen = {slot.name for slot in first[:canaries]}
    return [
        slot.wanting(change.candidate if slot.name in chosen else change.target) if slot.wants else slot
        for slot in slots
    ]


def _trying(
    change: Change, own: Sequence[Slot], verdict: Verdict, reason: str, canaries: int, now_s: float
) -> Change:
    if any(len(slot.deaths_s) >= MOST_CANARY_DEATHS or slot.phase is Phase.GIVEN_UP for slot in own):
        return _refuse(change, now_s, "its canary dies")
    serving = [slot for slot in own if slot.phase is Phase.SERVING and slot.runs == change.candidate]
    if len(serving) < min(canaries, len(own) or canaries):
        return change
    if change.judged_since_s is None:
        return replace(change, judged_since_s=now_s)
    if verdict is Verdict.BAD:
        return _refuse(change, now_s, reason)
    if verdict is Verdict.GOOD:
        return replace(change, stage=Stage.ROLLING, since_s=now_s, reason=reason)
    return change


def _rolling(change: Change, slots: Sequence[Slot], own: Sequence[Slot], now_s: float) -> Change:
    if any(slot.phase is Phase.GIVEN_UP for slot in own):
        return _refuse(change, now_s, "an engine with it dies again and again")
    used = [slot for slot in slots if slot.wants]
    if all(slot.phase is Phase.SERVING and slot.runs == change.candidate for slot in used):
        return Change(change.candidate, since_s=now_s, reason=change.reason)
    return change


def _refuse(change: Change, now_s: float, reason: str) -> Change:
    taken_back = _back(change, now_s, reason)
    return replace(taken_back, refused=(*change.refused, change.candidate))


def _back(change: Change, now_s: float, reason: str) -> Change:
    return replace(change, stage=Stage.RETURNING, since_s=now_s, judged_since_s=None, reason=reason)


def _rank(slot: Slot) -> tuple[bool, str]:
    """Those that serve nobody are tried on first."""
    return slot.phase is Phase.SERVING, slot.name
