"""Runs a cluster file on this box: looks, decides by the rules of `lifecycle`, acts, writes down what is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kilocard.lifecycle import (
    Order,
    Phase,
    Seen,
    Slot,
    Stage,
    advance,
    due_again,
    due_by_age,
    let_go,
    step,
    wanted,
)
from kilocard.specs.cluster import ClusterSpec
from kilocard.specs.cluster.parts import joined
from kilocard.supervisor.events import Events
from kilocard.supervisor.front import Front
from kilocard.supervisor.hands import Hands
from kilocard.supervisor.home import Home
from kilocard.supervisor.roster import (
    BALANCER,
    GATEWAYS,
    canaries_of,
    follow,
    has_balancer,
    roll_rule_of,
    rules_of,
)
from kilocard.supervisor.starting import Starter
from kilocard.supervisor.state import Held, State, write_state
from kilocard.supervisor.trial import Trial
from kilocard.supervisor.watch import Watch, completes, is_healthy

LOOK_S = 0.25
IN_FRONT = (GATEWAYS, BALANCER)


class Supervisor:
    """One cluster's. `tick` looks once and does what has to be done now; nothing in it waits for long."""

    def __init__(
        self, spec: ClusterSpec, state: State, home: Home, starter: Starter, say: Callable[[str], None]
    ) -> None:
        self.spec, self.state, self.home = spec, state, home
        self.is_ending = False
        self._starter, self._hands = starter, Hands(starter)
        self._watch, self._trial = Watch(), Trial(home)
        self._front = Front(home, self._watch, starter.admin_key)
        self._events = Events(home.events, say)

    def note(self, event: str, **about: Any) -> None:
        """What somebody else did."""
        self._events.note(event, **about)

    def adopt(self, spec: ClusterSpec) -> None:
        """Follow another reading of the file from now on."""
        self.spec = spec
        self.note("file read")

    def roll(self, pool: str | None = None) -> None:
        """Start every engine anew, of one pool or of all, batch by batch."""
        for name in [pool] if pool else [it.name for it in self.spec.pools]:
            self._put(due_again([held.slot for held in self.state.of_pool(name)]))
        self.note("restart ordered", pool=pool or "all")

    def end(self) -> None:
        """Drain and stop everything: the gateways' clients first."""
        self.is_ending = True
        self.note("end ordered")

    @property
    def is_over(self) -> bool:
        """Whether nothing runs any more."""
        return self.is_ending and all(it.slot.phase is Phase.EMPTY for it in self.state.held.values())

    @property
    def is_ready(self) -> bool:
        """Whether everything serves with the settings that it shall have, and the gateways know it."""
        held = self.state.held.values()
        return (
            bool(held)
            and self._front.is_told
            and all(it.stage is Stage.STEADY for it in self.state.changes.values())
            and all(it.slot.phase is Phase.SERVING and not it.slot.is_outdated for it in held)
        )

    @property
    def url(self) -> str:
        """Where clients ask: the balancer where there is one, else the first gateway."""
        own = self.spec.balancer
        place = joined(own.host, own.port) if has_balancer(self.spec) else self.spec.gateway_places[0]
        return f"http://{place}"

    @property
    def seen(self) -> dict[str, dict[str, Any]]:
        """Each replica as the gateways see it."""
        return self._front.seen

    def tick(self, now_s: float) -> None:
        """One look."""
        if self.is_ending:
            self._want_nothing()
        else:
            follow(self.spec, self.state, is_emulated=self._starter.is_emulated, now_s=now_s)
            self._change(now_s)
            self._grow_old(now_s)
        self._look(now_s)
        if self.state.held:
            self._front.write(self.spec, self.state)
        self._move(now_s)
        if self.state.held:
            self._front.write(self.spec, self.state)
            for name, fault in self._front.tell(self.spec, self.state).items():
                self.note("does not take up its file", slot=name, reason=fault)
        self._tidy()
        write_state(self.home.state, self.state)

    def close(self) -> None:
        """Let everything run on."""
        self._watch.close()
        self._trial.close()
        self._hands.close()

    def _want_nothing(self) -> None:
        """Whoever lets clients in goes first, so that nobody comes whom no engine would serve."""
        held = self.state.held.values()
        for pools in ((BALANCER,), (GATEWAYS,)):
            open_ = [it for it in held if it.slot.pool in pools and it.slot.phase is not Phase.EMPTY]
            if open_:
                for it in open_:
                    it.slot = it.slot.wanting("")
                return
        for it in held:
            it.slot = it.slot.wanting("")

    def _change(self, now_s: float) -> None:
        canaries = canaries_of(self.spec)
        for pool, change in list(self.state.changes.items()):
            slots = [held.slot for held in self.state.of_pool(pool)]
            verdict, reason = self._trial.judge(self.spec, self.state, pool, now_s)
            after = advance(change, slots, verdict, reason, canaries, now_s)
            if after.stage is not change.stage:
                self.note(str(after.stage), pool=pool, reason=after.reason)
            self.state.changes[pool] = after
            self._put(wanted(after, slots, canaries))

    def _grow_old(self, now_s: float) -> None:
        """In the low hours, engines that have run for long enough are to be started anew."""
        rule = self.spec.lifecycle.restarts
        now = time.gmtime()
        if rule is None or not rule.is_open(60 * now.tm_hour + now.tm_min):
            return
        for pool in self.spec.pools:
            slots = [held.slot for held in self.state.of_pool(pool.name)]
            self._put(due_by_age(slots, now_s, 3600 * rule.every_h))

    def _look(self, now_s: float) -> None:
        """Ask, and take the answers to what was asked before."""
        self._front.look(self.spec, now_s)
        every_s = self.spec.lifecycle.ready.every_s
        for name, held in self.state.held.items():
            if fault := self._hands.take(held):
                self.note("cannot start", slot=name, reason=fault)
            if held.slot.phase is Phase.STARTING and held.kept:
                self._watch.ask(name, now_s, every_s, *self._question(held))
                if (good := self._watch.answer(name)) is not None:
                    held.successes = held.successes + 1 if good else 0

    def _question(self, held: Held) -> tuple[Any, ...]:
        url = f"http://127.0.0.1:{held.port}"
        if held.slot.pool in IN_FRONT:
            return is_healthy, url
        recipe = self.state.recipes[held.slot.runs]
        return completes, url, recipe.engine.served_model_name, self._starter.engine_key

    def _move(self, now_s: float) -> None:
        """Each slot one step on, then those that may leave for a change."""
        rules, counted = rules_of(self.spec), self._front.in_flight(self.spec, self.state)
        for name, held in self.state.held.items():
            seen = Seen(
                self._hands.is_alive(held),
                held.successes >= self.spec.lifecycle.ready.successes,
                0 if held.slot.pool in IN_FRONT else counted[name],
            )
            self._act(held, *step(held.slot, seen, now_s, rules))
        for pool in {held.slot.pool for held in self.state.held.values()}:
            mine = self.state.of_pool(pool)
            told = let_go([it.slot for it in mine], now_s, roll_rule_of(self.spec, pool))
            for held, (slot, order) in zip(mine, told, strict=True):
                self._act(held, slot, order)

    def _act(self, held: Held, slot: Slot, order: Order | None) -> None:
        before, held.slot = held.slot, slot
        if order is Order.START:
            self._hands.start(self.spec, self.state, held)
            if slot.pool == GATEWAYS:
                self._front.began(int(slot.name.rpartition("-")[2]))
        elif order is Order.STOP:
            self._hands.stop(held)
        if slot.phase is before.phase:
            return
        settings = slot.runs or before.runs
        self.note(str(slot.phase), slot=slot.name, settings=settings, deaths=len(slot.deaths_s))
        if slot.phase in (Phase.EMPTY, Phase.GIVEN_UP):
            held.kept, held.successes = None, 0
            self._watch.forget(slot.name)

    def _put(self, slots: list[Slot]) -> None:
        for slot in slots:
            self.state.held[slot.name].slot = slot

    def _tidy(self) -> None:
        """Slots that want nothing and hold nothing are gone, and what was known of them."""
        for name, held in list(self.state.held.items()):
            if not held.slot.wants and held.slot.phase is Phase.EMPTY and not self.is_ending:
                del self.state.held[name]
        pools = {held.slot.pool for held in self.state.held.values()}
        self.state.changes = {name: it for name, it in self.state.changes.items() if name in pools}
        self.state.forget_recipes()
