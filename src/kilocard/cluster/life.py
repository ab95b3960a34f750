"""How engines of a simulated cluster come, go and change: the rules of `kilocard.lifecycle`, carried out in
virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from kilocard.cluster.books import UP
from kilocard.cluster.calendar import Calendar
from kilocard.cluster.canaries import served_by
from kilocard.cluster.hands import Hands
from kilocard.cluster.processes import Processes
from kilocard.cluster.watch import Watch
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.lifecycle import (
    CanaryRule,
    Change,
    Order,
    Phase,
    RollRule,
    Rules,
    Seen,
    Slot,
    Stage,
    Verdict,
    advance,
    due_again,
    due_by_age,
    judge,
    let_go,
    propose,
    step,
    wanted,
)
from kilocard.specs.cluster import ClusterSpec

LOOK_S = 1.0
MOST_MISSES_S = 60.0
RESTARTS_LOOKED_S = 60.0


@dataclass(slots=True)
class Life:
    """Of all pools. `dark` are engines whose machines have no power."""

    spec: ClusterSpec
    hands: Hands
    watch: Watch
    calendar: Calendar
    processes: Processes
    begins_at_minute: int
    chance: Random
    slots: list[Slot] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    dark: set[int] = field(default_factory=set)
    served_from: dict[int, int] = field(default_factory=dict)
    events: list[tuple[float, str, str]] = field(default_factory=list)
    _looks: bool = False

    def __post_init__(self) -> None:
        shape = self.hands.ground.shape
        for p, pool in enumerate(self.spec.pools):
            version = pool.version or self.spec.version or "v1"
            self.changes.append(Change(version))
            self.processes.times[version] = 1.0
            for r in range(int(shape.begins[p]), int(shape.begins[p + 1])):
                serves = self.hands.ground.marks.alive[r] == UP
                name = f"{pool.name}-{r - int(shape.begins[p])}"
                slot = Slot(name, pool.name, version if serves else "", version if serves else "")
                self.slots.append(slot.now_in(Phase.SERVING, 0.0) if serves else slot)
                if serves:
                    self.processes.alive.add(r)
                    self.processes.runs[r] = version
                else:
                    self.watch.draining.add(r)
        if self.spec.lifecycle.restarts is not None:
            self.calendar.at_s(RESTARTS_LOOKED_S, self._look_at_ages)

    # --- what is asked

    def change(self, p: int, version: str, times: float, now_ps: int) -> None:
        """A pool shall run another version."""
        self.processes.times[version] = times
        own = self.spec.lifecycle.canary
        has_canary = own is not None and own.replicas < len(self._of(p))
        self.changes[p] = propose(self.changes[p], version, has_canary, now_ps / PICOSECONDS)
        self.events.append((now_ps / PICOSECONDS, "change", f"{self.spec.pools[p].name} {version}"))
        self.look_soon(now_ps)

    def restart(self, p: int, now_ps: int) -> None:
        """All of a pool are started anew, batch by batch."""
        self._put(p, due_again(self._of(p)))
        self.look_soon(now_ps)

    def scale(self, p: int, count: int, now_ps: int) -> None:
        """A pool shall have so many."""
        slots = self._of(p)
        have = [slot for slot in slots if slot.wants]
        changed = {}
        if count > len(have):
            free = [slot for slot in slots if not slot.wants and slot.phase is Phase.EMPTY]
            for slot in free[: count - len(have)]:
                changed[slot.name] = slot.wanting(self.changes[p].target)
        else:
            for slot in sorted(have, key=_leaves_first)[: len(have) - count]:
                changed[slot.name] = slot.wanting("")
        self._put(p, [changed.get(slot.name, slot) for slot in slots])
        self.look_soon(now_ps)

    def count(self, p: int) -> int:
        """How many a pool wants."""
        return sum(bool(slot.wants) for slot in self._of(p))

    def died(self, r: int, now_ps: int) -> None:
        """An engine's process has ended by itself."""
        self.processes.alive.discard(r)
        self.look_soon(now_ps)

    def hangs(self, r: int, now_ps: int) -> None:
        """It says nothing; after a minute of that it counts as dead."""
        self.processes.quiet_since_s[r] = now_ps / PICOSECONDS
        self.look_soon(now_ps)

    # --- looks

    def look_soon(self, now_ps: int) -> None:
        """Look each second until nothing moves."""
        if not self._looks:
            self._looks = True
            self.calendar.at(now_ps + round(LOOK_S * PICOSECONDS), self._look)

    def _look(self, now_ps: int) -> None:
        self._looks = False
        now_s = now_ps / PICOSECONDS
        for p in range(len(self.spec.pools)):
            self._follow_change(p, now_ps)
            begin = int(self.hands.ground.shape.begins[p])
            rule = self.spec.lifecycle.roll
            warm = RollRule(rule.share, rule.verify_s, self.spec.pools[p].min_warm)
            for k, slot in enumerate(self._of(p)):
                after, order = step(slot, self._seen(begin + k, now_s), now_s, self._rules())
                if begin + k in self.dark and order is Order.START:
                    continue
                self.slots[begin + k] = after
                self._obey(begin + k, order, now_ps)
            for k, (after, order) in enumerate(let_go(self._of(p), now_s, warm)):
                self.slots[begin + k] = after
                self._obey(begin + k, order, now_ps)
        if self._moves():
            self.look_soon(now_ps)

    def _moves(self) -> bool:
        return (
            any(change.stage is not Stage.STEADY for change in self.changes)
            or any(
                (
                    slot.phase not in (Phase.SERVING, Phase.GIVEN_UP)
                    and not (slot.phase is Phase.EMPTY and not slot.wants)
                )
                or (slot.is_outdated and slot.phase is not Phase.GIVEN_UP)
                for slot in self.slots
            )
            or bool(self.processes.quiet_since_s)
        )

    def _look_at_ages(self, now_ps: int) -> None:
        """Scheduled restarts, in the low hours."""
        own = self.spec.lifecycle.restarts
        assert own is not None
        self.calendar.at(now_ps + round(RESTARTS_LOOKED_S * PICOSECONDS), self._look_at_ages)
        now_s = now_ps / PICOSECONDS
        minute = (self.begins_at_minute + int(now_s // 60)) % (24 * 60)
        if not own.is_open(minute):
            return
        for p in range(len(self.spec.pools)):
            before = self._of(p)
            after = due_by_age(before, now_s, own.every_h * 3600)
            if after != before:
                self._put(p, after)
                self.look_soon(now_ps)

    # --- orders

    def _obey(self, r: int, order: Order | None, now_ps: int) -> None:
        match order:
            case Order.START:
                self.events.append((now_ps / PICOSECONDS, "start", self.slots[r].name))
                self.processes.start(r, self.slots[r].runs, now_ps)
            case Order.ADMIT:
                self.events.append((now_ps / PICOSECONDS, "serving", self.slots[r].name))
                self.watch.started(r, now_ps)
            case Order.RETIRE:
                self.watch.drain(r, now_ps)
            case Order.STOP | Order.KILL:
                self.processes.stop(r, now_ps)

    # --- shorthands

    def _seen(self, r: int, now_s: float) -> Seen:
        shape, columns = self.hands.ground.shape, self.hands.ground.views.columns
        in_flight = int(columns.active[r :: shape.engines].sum())
        quiet_s = now_s - self.processes.quiet_since_s.get(r, now_s)
        misses = self._rules().most_misses if quiet_s >= MOST_MISSES_S else 0
        its = self.processes
        return Seen(r in its.alive, r in its.ready, in_flight, misses)

    def _rules(self) -> Rules:
        its = self.spec.lifecycle
        return Rules(
            ready_within_s=its.ready.within_s,
            drain_s=its.drain_s,
            back_off_s=its.crashes.back_off_s,
            most_back_off_s=its.crashes.most_back_off_s,
            most_deaths=its.crashes.most,
            deaths_within_s=its.crashes.within_s,
            most_stop_s=its.drain_s + its.stop_s + 60.0,
        )

    def _of(self, p: int) -> list[Slot]:
        begins = self.hands.ground.shape.begins
        return self.slots[int(begins[p]) : int(begins[p + 1])]

    def _put(self, p: int, slots: list[Slot]) -> None:
        begins = self.hands.ground.shape.begins
        self.slots[int(begins[p]) : int(begins[p + 1])] = slots

    # --- canaries

    def _follow_change(self, p: int, now_ps: int) -> None:
        change = self.changes[p]
        if change.stage is Stage.STEADY:
            return
        own = self.spec.lifecycle.canary
        canaries = own.replicas if own else 0
        verdict, reason = self._judged(p, now_ps)
        after = advance(change, self._of(p), verdict, reason, canaries, now_ps / PICOSECONDS)
        if after.stage is not change.stage:
            self.events.append(
                (now_ps / PICOSECONDS, str(after.stage), f"{self.spec.pools[p].name}: {after.reason}")
            )
        if after.judged_since_s is not None and change.judged_since_s is None:
            self.served_from[p] = now_ps
        self.hands.ground.marks.canary[p] = after.stage is Stage.TRYING and after.judged_since_s is not None
        self.changes[p] = after
        self._put(p, wanted(after, self._of(p), canaries))

    def canary_engines(self, p: int) -> list[int]:
        """Those of a pool that run the candidate."""
        begin = int(self.hands.ground.shape.begins[p])
        candidate = self.changes[p].candidate
        return [begin + k for k, slot in enumerate(self._of(p)) if candidate and slot.runs == candidate]

    def _judged(self, p: int, now_ps: int) -> tuple[Verdict, str]:
        change, own = self.changes[p], self.spec.lifecycle.canary
        if own is None or change.stage is not Stage.TRYING or change.judged_since_s is None:
            return Verdict.WAIT, ""
        rule = CanaryRule(own.least_requests, own.within_s, own.most_errors, own.slower_ratio, own.least_good)
        canaries = self.canary_engines(p)
        begin, end = (int(it) for it in self.hands.ground.shape.begins[p : p + 2])
        others = [r for r in range(begin, end) if r not in canaries]
        served = [served_by(self.hands, rs, self.served_from[p], now_ps) for rs in (canaries, others)]
        return judge(served[0], served[1], (), now_ps / PICOSECONDS - change.judged_since_s, rule)


def _leaves_first(slot: Slot) -> tuple[bool, float]:
    return slot.phase is Phase.SERVING, -slot.started_s
