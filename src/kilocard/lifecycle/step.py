"""One slot, one look further: what it becomes, and what is to be done for that."""

from __future__ import annotations

from dataclasses import replace

from kilocard.lifecycle.slot import Order, Phase, Rules, Seen, Slot

Next = tuple[Slot, Order | None]


def step(slot: Slot, seen: Seen, now_s: float, rules: Rules) -> Next:
    """A slot after one look at its engine.

    A serving slot leaves only by `let_go`, by dying, or when it has given no sign for so long that it is
    as good as dead. Nothing else is stopped before the gateways have nothing in flight at it, or `drain_s` is
    over.
    """
    match slot.phase:
        case Phase.EMPTY:
            return _empty(slot, now_s, rules)
        case Phase.STARTING:
            return _starting(slot, seen, now_s, rules)
        case Phase.SERVING:
            return _serving(slot, seen, now_s, rules)
        case Phase.DRAINING:
            return _draining(slot, seen, now_s, rules)
        case Phase.STOPPING:
            return _stopping(slot, seen, now_s, rules)
        case Phase.GIVEN_UP:
            return (slot, None) if slot.wants == slot.gave_up_on else (_forgiven(slot, now_s), None)


def back_off_s(deaths: int, rules: Rules) -> float:
    """Seconds from the last of so many deaths to the next start: twice as many each time."""
    return min(rules.most_back_off_s, rules.back_off_s * 2.0 ** min(deaths - 1, 60)) if deaths else 0.0


def _empty(slot: Slot, now_s: float, rules: Rules) -> Next:
    if not slot.wants:
        return slot, None
    due_s = slot.deaths_s[-1] + back_off_s(len(slot.deaths_s), rules) if slot.deaths_s else now_s
    if now_s < due_s:
        return slot, None
    started = replace(slot, runs=slot.wants, started_s=now_s, is_due=False)
    return started.now_in(Phase.STARTING, now_s), Order.START


def _starting(slot: Slot, seen: Seen, now_s: float, rules: Rules) -> Next:
    if not seen.is_alive:
        return _died(slot, now_s, rules), None
    if slot.is_outdated:
        return slot.now_in(Phase.STOPPING, now_s), Order.STOP
    if seen.is_ready:
        return slot.now_in(Phase.SERVING, now_s), Order.ADMIT
    if now_s - slot.since_s > rules.ready_within_s:
        return _as_dead(slot, now_s, rules)
    return slot, None


def _serving(slot: Slot, seen: Seen, now_s: float, rules: Rules) -> Next:
    if not seen.is_alive:
        return _died(slot, now_s, rules), Order.RETIRE
    return _as_dead(slot, now_s, rules) if seen.misses >= rules.most_misses else (slot, None)


def _as_dead(slot: Slot, now_s: float, rules: Rules) -> Next:
    """It is there, and of no use."""
    counted = replace(slot, deaths_s=_of_late((*slot.deaths_s, now_s), now_s, rules))
    return counted.now_in(Phase.STOPPING, now_s), Order.STOP


def _draining(slot: Slot, seen: Seen, now_s: float, rules: Rules) -> Next:
    if not seen.is_alive:
        return _vacated(slot, now_s, rules), None
    if seen.in_flight == 0 or now_s - slot.since_s > rules.drain_s:
        return slot.now_in(Phase.STOPPING, now_s), Order.STOP
    return slot, None


def _stopping(slot: Slot, seen: Seen, now_s: float, rules: Rules) -> Next:
    if not seen.is_alive:
        return _vacated(slot, now_s, rules), None
    return slot, Order.KILL if now_s - slot.since_s > rules.most_stop_s else None


def _died(slot: Slot, now_s: float, rules: Rules) -> Slot:
    """By itself."""
    return _vacated(replace(slot, deaths_s=_of_late((*slot.deaths_s, now_s), now_s, rules)), now_s, rules)


def _vacated(slot: Slot, now_s: float, rules: Rules) -> Slot:
    """Nothing is in it any more."""
    died, deaths = slot.runs, _of_late(slot.deaths_s, now_s, rules)
    if died and died != slot.wants:
        return replace(slot, runs="", deaths_s=(), gave_up_on="").now_in(Phase.EMPTY, now_s)
    empty = replace(slot, runs="", deaths_s=deaths)
    if len(deaths) >= rules.most_deaths:
        return replace(empty, gave_up_on=slot.wants).now_in(Phase.GIVEN_UP, now_s)
    return empty.now_in(Phase.EMPTY, now_s)


def _forgiven(slot: Slot, now_s: float) -> Slot:
    return replace(slot, deaths_s=(), gave_up_on="").now_in(Phase.EMPTY, now_s)


def _of_late(deaths_s: tuple[float, ...], now_s: float, rules: Rules) -> tuple[float, ...]:
    return tuple(at for at in deaths_s if now_s - at <= rules.deaths_within_s)
