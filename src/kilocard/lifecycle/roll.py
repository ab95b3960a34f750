"""Who may leave next, so that a pool goes on serving while it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor

from kilocard.lifecycle.slot import Order, Phase, Slot


@dataclass(frozen=True, slots=True)
class RollRule:
    """A batch is max(1, `share` of a pool); what came back is watched for `verify_s`; never fewer than
    `min_warm` serve."""

    share: float = 0.25
    verify_s: float = 10.0
    min_warm: int = 0


def batch_size(count: int, share: float) -> int:
    """Replicas that may be out at once for a change."""
    return max(1, floor(share * count + 1e-9))


def may_leave(slots: Sequence[Slot], now_s: float, rule: RollRule) -> int:
    """How many more of a pool's serving slots may leave now.

    Those that are given up do not hold a change back, but they serve nobody: `min_warm` counts without them.
    """
    wanted = [slot for slot in slots if slot.wants]
    serving = sum(slot.phase is Phase.SERVING for slot in wanted)
    out = sum(_is_out(slot, now_s, rule) for slot in wanted)
    room = batch_size(len(wanted), rule.share) - out if wanted else 0
    return max(0, min(room, serving - rule.min_warm))


def let_go(slots: Sequence[Slot], now_s: float, rule: RollRule) -> list[tuple[Slot, Order | None]]:
    """The slots of a pool after one look: as many outdated ones as may leave begin to drain, and each that is
    wanted no longer.

    What was given up holds back restarts with the very settings that it was given up on: where one cannot be
    started, the next would not come back either.
    """
    room = may_leave(slots, now_s, rule)
    stuck = Counter(slot.gave_up_on for slot in slots if slot.phase is Phase.GIVEN_UP)
    told: list[tuple[Slot, Order | None]] = []
    for slot in slots:
        leaves = slot.phase is Phase.SERVING and slot.is_outdated
        held_back = stuck[slot.runs] if slot.runs == slot.wants else 0
        if leaves and (room > held_back or not slot.wants):
            room -= bool(slot.wants)
            told.append((slot.now_in(Phase.DRAINING, now_s), Order.RETIRE))
        else:
            told.append((slot, None))
    return told


def due_again(slots: Sequence[Slot]) -> list[Slot]:
    """All of them to be started anew, batch by batch; those that were given up, at once."""
    return [replace(slot, is_due=slot.is_due or slot.phase is Phase.SERVING, gave_up_on="") for slot in slots]


def due_by_age(slots: Sequence[Slot], now_s: float, oldest_s: float) -> list[Slot]:
    """Those that have run for longer are to be started anew."""
    return [
        replace(slot, is_due=True)
        if slot.phase is Phase.SERVING and now_s - slot.started_s > oldest_s
        else slot
        for slot in slots
    ]


def _is_out(slot: Slot, now_s: float, rule: RollRule) -> bool:
    """Whether it is on its way, or back so lately that nobody knows whether it stays."""
    if slot.phase is Phase.SERVING:
        return not slot.is_outdated and now_s - slot.since_s < rule.verify_s
    return slot.phase is not Phase.GIVEN_UP
