"""Every pool's way to the settings that it shall have, one look further."""

from __future__ import annotations

import time
from typing import Any, Protocol

from kilocard.lifecycle import Stage, advance, due_by_age, wanted
from kilocard.specs.cluster import ClusterSpec
from kilocard.supervisor.roster import Roster, canaries_of, follow
from kilocard.supervisor.state import State
from kilocard.supervisor.trial import Trial


class Note(Protocol):
    """Writes down what was done."""

    def __call__(self, event: str, **about: Any) -> None:
        """One thing."""


class Changes:
    """Of one cluster; each stage that a change comes to is noted."""

    def __init__(self, trial: Trial, note: Note) -> None:
        self._trial, self._note = trial, note

    def go_on(self, spec: ClusterSpec, roster: Roster, state: State, now_s: float) -> None:
        """What the file asks for, what canaries have shown, what has grown old."""
        self._follow(roster, state, now_s)
        self._advance(spec, state, now_s)
        self._grow_old(spec, state, now_s)

    def _follow(self, roster: Roster, state: State, now_s: float) -> None:
        before = {pool: change.stage for pool, change in state.changes.items()}
        follow(roster, state, now_s)
        for pool, change in state.changes.items():
            if change.stage is not before.get(pool, Stage.STEADY):
                self._note(str(change.stage), pool=pool, reason=change.reason)

    def _advance(self, spec: ClusterSpec, state: State, now_s: float) -> None:
        canaries = canaries_of(spec)
        for pool, change in list(state.changes.items()):
            slots = [held.slot for held in state.of_pool(pool)]
            verdict, reason = self._trial.judge(spec, state, pool, now_s)
            after = advance(change, slots, verdict, reason, canaries, now_s)
            if after.stage is not change.stage:
                self._note(str(after.stage), pool=pool, reason=after.reason)
            state.changes[pool] = after
            state.put(wanted(after, slots, canaries))

    def _grow_old(self, spec: ClusterSpec, state: State, now_s: float) -> None:
        """In the low hours, engines that have run for long enough are to be started anew."""
        rule, now = spec.lifecycle.restarts, time.gmtime()
        if rule is None or not rule.is_open(60 * now.tm_hour + now.tm_min):
            return
        for pool in spec.pools:
            slots = [held.slot for held in state.of_pool(pool.name)]
            state.put(due_by_age(slots, now_s, 3600 * rule.every_h))
