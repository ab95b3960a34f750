"""Runs a cluster file on this box: looks, decides by the rules of `lifecycle`, acts, writes down what is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kilocard.lifecycle import (
    Order,
    Phase,
    Seen,
    Slot,
    Stage,
    due_again,
    let_go,
    step,
)
from kilocard.specs.cluster import ClusterSpec
from kilocard.specs.cluster.parts import joined
from kilocard.supervisor.changes import Changes
from kilocard.supervisor.checksums import Reading
from kilocard.supervisor.events import Events
from kilocard.supervisor.front import Front
from kilocard.supervisor.hands import Hands
from kilocard.supervisor.home import Home
from kilocard.supervisor.last_words import why
from kilocard.supervisor.logs import Logs
from kilocard.supervisor.roster import (
    BALANCER,
    GATEWAYS,
    has_balancer,
    is_free,
    roll_rule_of,
    roster_of,
    rules_of,
)
from kilocard.supervisor.signs import IN_FRONT, Signs
from kilocard.supervisor.starting import Starter
from kilocard.supervisor.state import Held, State
from kilocard.supervisor.state_file import StateFile
from kilocard.supervisor.trial import Trial
from kilocard.supervisor.watch import Watch

LOOK_S = 0.2
FOUND_WITHIN_S = 10.0


class Supervisor:
    """One cluster's. `tick` looks once and does what has to be done now; nothing in it waits for long."""

    def __init__(
        self, spec: ClusterSpec, state: State, home: Home, starter: Starter, say: Callable[[str], None]
    ) -> None:
        self.spec, self.state, self.home = spec, state, home
        self.is_ending = False
        self._starter, self._hands = starter, Hands(starter)
        self._watch, self._trial = Watch(), Trial(home, starter.engine_key)
        self._changes = Changes(self._trial, self.note)
        self._front = Front(home, self._watch, starter.admin_key)
        self._signs = Signs(self._watch, starter.engine_key)
        self._events, self._logs, self._file = Events(home.events, say), Logs(home), StateFile(home.state)
        self._roster = roster_of(spec, is_emulated=starter.is_emulated)

    def note(self, event: str, **about: Any) -> None:
        """What somebody else did."""
        self._events.note(event, **about)

    def adopt(self, spec: ClusterSpec) -> None:
        """Follow another reading of the file from now on."""
        self.spec = spec
        self._roster = roster_of(spec, is_emulated=self._starter.is_emulated)
        self.note("file read")

    def roll(self, pool: str | None = None) -> None:
        """Start every engine anew, of one pool or of all, batch by batch."""
        for name in [pool] if pool else [it.name for it in self.spec.pools]:
            self.state.put(due_again([held.slot for held in self.state.of_pool(name)]))
        self.note("restart ordered", pool=pool or "all")

    def end(self) -> None:
        """Drain and stop everything: the gateways' clients first."""
        self.is_ending = True
        self._hands.stop_reading()
        self.note("end ordered")

    @property
    def is_over(self) -> bool:
        """Whether nothing runs any more."""
        return self.is_ending and all(it.slot.phase is Phase.EMPTY for it in self.state.held.values())

    @property
    def is_ready(self) -> bool:
        """Whether everything serves with the settings that it shall have, and the gateways send to it."""
        held = self.state.held.values()
        return (
            bool(held)
            and self._front.is_told
            and all(it.stage is Stage.STEADY for it in self.state.changes.values())
            and all(it.slot.phase is Phase.SERVING and not it.slot.is_outdated for it in held)
            and all(it.slot.pool in IN_FRONT or self._is_sent_to(it) for it in held)
        )

    def _is_sent_to(self, held: Held) -> bool:
        return self._front.sends_to(self.spec, held.slot.name)

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

    @property
    def reading(self) -> Reading | None:
        """Weights that are being verified."""
        return self._starter.verifier.reading

    def tick(self, now_s: float) -> None:
        """One look."""
        if self.is_ending:
            self._want_nothing()
        else:
            self._changes.go_on(self.spec, self._roster, self.state, now_s)
        self._look(now_s)
        self._tell_gateways()
        self._move(now_s)
        self._tell_gateways()
        self._tidy()
        self._logs.bound(self._gateway_processes(), now_s)
        self.state.is_ready = self.is_ready
        if fault := self._file.keep(self.state):
            self.note("cannot write down what runs", reason=fault)

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

    def _look(self, now_s: float) -> None:
        """Ask, and take the answers to what was asked before."""
        self._front.look(self.spec, now_s)
        for name, held in self.state.held.items():
            if fault := self._hands.take(held):
                held.fault = fault
                self.note("cannot start", slot=name, reason=fault)
        self._signs.look(self.spec, self.state, now_s)

    def _tell_gateways(self) -> None:
        """Which engines serve now."""
        if not self.state.held:
            return
        if fault := self._front.write(self.spec, self.state):
            self.note("cannot tell the gateways", reason=fault)
        for name, fault in self._front.tell(self.spec, self.state).items():
            self.note("does not take up its file", slot=name, reason=fault)

    def _gateway_processes(self) -> list[int]:
        own = [it for it in self.state.of_pool(GATEWAYS) if it.slot.phase is Phase.SERVING]
        return [it.kept.program_pid for it in own if it.kept and it.kept.is_alive]

    def _move(self, now_s: float) -> None:
        """Each slot one step on, then those that may leave for a change."""
        rules, counted = rules_of(self.spec), self._front.in_flight(self.spec, self.state)
        for name, held in self.state.held.items():
            if self._has_to_wait(held):
                continue
            seen = Seen(
                self._hands.is_alive(held),
                held.successes >= self.spec.lifecycle.ready.successes,
                0 if held.slot.pool in IN_FRONT else counted[name],
                held.misses,
            )
            self._act(held, *step(held.slot, seen, now_s, rules))
        if self._front.is_behind and not self.is_ending:
            return
        for pool in {held.slot.pool for held in self.state.held.values()}:
            mine = self.state.of_pool(pool)
            if not self.is_ending and any(self._is_new_to_gateways(it, now_s) for it in mine):
                continue
            told = let_go([it.slot for it in mine], now_s, roll_rule_of(self.spec, pool))
            for held, (slot, order) in zip(mine, told, strict=True):
                self._act(held, slot, order)

    def _is_new_to_gateways(self, held: Held, now_s: float) -> bool:
        """It serves, and they have not found that yet: until then it is as good as out."""
        is_new = held.slot.phase is Phase.SERVING and now_s - held.slot.since_s < FOUND_WITHIN_S
        return is_new and held.slot.pool not in IN_FRONT and not self._is_sent_to(held)

    def _has_to_wait(self, held: Held) -> bool:
        """For its port; or, while it drains, for gateways that cannot be told and send to it."""
        if held.slot.phase is Phase.DRAINING:
            return self._front.is_behind and held.slot.pool not in IN_FRONT and not self.is_ending
        return held.slot.phase is Phase.EMPTY and not is_free(self.state, held.port, but=held)

    def _act(self, held: Held, slot: Slot, order: Order | None) -> None:
        before, held.slot = held.slot, slot
        if order is Order.START:
            self._hands.start(self.spec, self.state, held)
            if slot.pool == GATEWAYS:
                self._front.began(int(slot.name.rpartition("-")[2]))
        elif order is Order.STOP:
            self._hands.stop(held)
        elif order is Order.KILL:
            self._hands.kill(held)
        if slot.phase is before.phase:
            return
        has_died = slot.deaths_s[-1:] not in ((), before.deaths_s[-1:])
        if has_died or slot.phase is Phase.SERVING:
            held.fault = why(before, held, self.home) if has_died else ""
        self.note(
            str(slot.phase),
            slot=slot.name,
            settings=slot.runs or before.runs,
            deaths=len(slot.deaths_s),
            reason=held.fault if has_died else "",
        )
        held.misses = 0
        if slot.phase in (Phase.EMPTY, Phase.GIVEN_UP):
            held.kept, held.successes = None, 0
            self._watch.forget(slot.name)

    def _tidy(self) -> None:
        """Slots that want nothing and hold nothing are gone, and what was known of them."""
        for name, held in list(self.state.held.items()):
            if not held.slot.wants and held.slot.phase is Phase.EMPTY and not self.is_ending:
                del self.state.held[name]
        pools = {held.slot.pool for held in self.state.held.values()}
        self.state.changes = {name: it for name, it in self.state.changes.items() if name in pools}
        self.state.forget_recipes()
