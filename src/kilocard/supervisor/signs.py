"""Signs of life: engines that start are asked for a completion, and all that serve whether they are there."""

from __future__ import annotations

from kilocard.lifecycle import Phase
from kilocard.specs.cluster import ClusterSpec
from kilocard.supervisor.roster import BALANCER, GATEWAYS
from kilocard.supervisor.state import Held, State
from kilocard.supervisor.watch import Watch, answers, completes, is_healthy

HEALTH_EVERY_S = 10.0
IN_FRONT = (GATEWAYS, BALANCER)


class Signs:
    """Of one cluster; what is asked now is answered at a later look."""

    def __init__(self, watch: Watch, engine_key: str) -> None:
        self._watch, self._engine_key = watch, engine_key

    def look(self, spec: ClusterSpec, state: State, now_s: float) -> None:
        """Ask each that runs, and count what was answered."""
        for name, held in state.held.items():
            if held.slot.phase is Phase.STARTING and held.kept:
                self._ask_whether_ready(spec, state, held, now_s)
                if (good := self._watch.answer(name)) is not None:
                    held.successes = held.successes + 1 if good else 0
            elif held.slot.phase is Phase.SERVING:
                self._ask_whether_there(held, now_s)
                if (good := self._watch.answer(name)) is not None:
                    held.misses = 0 if good else held.misses + 1

    def _ask_whether_ready(self, spec: ClusterSpec, state: State, held: Held, now_s: float) -> None:
        name, url, every_s = held.slot.name, _url(held), spec.lifecycle.ready.every_s
        if held.slot.pool in IN_FRONT:
            self._watch.ask(name, now_s, every_s, is_healthy, url)
        else:
            model = state.recipes[held.slot.runs].engine.served_model_name
            self._watch.ask(name, now_s, every_s, completes, url, model, self._engine_key)

    def _ask_whether_there(self, held: Held, now_s: float) -> None:
        """The balancer passes on what a gateway says: any answer is its sign."""
        question = answers if held.slot.pool == BALANCER else is_healthy
        self._watch.ask(held.slot.name, now_s, HEALTH_EVERY_S, question, _url(held))


def _url(held: Held) -> str:
    return f"http://127.0.0.1:{held.port}"
