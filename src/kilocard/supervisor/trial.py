"""How a canary does: what it and the others served since it serves, and how it answers the samples."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from kilocard.lifecycle import CanaryRule, Phase, Served, Stage, Verdict, judge
from kilocard.specs.cluster import CanaryChecks, ClusterSpec
from kilocard.supervisor.effective import access_log_of, version_of
from kilocard.supervisor.home import Home
from kilocard.supervisor.samples import answered_well
from kilocard.supervisor.state import State
from kilocard.supervisor.traffic import log_end, served_since

LOOK_EVERY_S = 1.0
NOTHING = (Verdict.WAIT, "")


class Trial:
    """Of one pool's change at a time; what it has read counts until the change ends."""

    def __init__(self, home: Home, engine_key: str = "") -> None:
        self._home, self._engine_key = home, engine_key
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="kilocard-sample")
        self._starts: dict[tuple[str, str, float], int] = {}
        self._samples: dict[tuple[str, str, float], list[Future[bool]]] = {}
        self._last: dict[tuple[str, str, float], tuple[float, tuple[Verdict, str]]] = {}

    def judge(self, spec: ClusterSpec, state: State, pool: str, now_s: float) -> tuple[Verdict, str]:
        """What is known at this moment of the canary of a pool."""
        change, rule = state.changes[pool], spec.lifecycle.canary
        if rule is None or change.stage is not Stage.TRYING or change.judged_since_s is None:
            return NOTHING
        key, log = (pool, change.candidate, change.judged_since_s), access_log_of(spec, self._home)
        if key not in self._starts:
            self._starts[key] = log_end(log)
            self._samples[key] = self._ask(state, pool, rule)
        looked_s, last = self._last.get(key, (0.0, NOTHING))
        if now_s - looked_s >= LOOK_EVERY_S:
            served = served_since(log, self._starts[key], pool)
            last = self._look(_apart(state, pool, served), rule, key, now_s)
            self._last[key] = (now_s, last)
        return last

    def close(self) -> None:
        """Wait for no answer."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, state: State, pool: str, rule: CanaryChecks) -> list[Future[bool]]:
        change = state.changes[pool]
        told = []
        for held in state.of_pool(pool):
            if held.slot.runs == change.candidate and held.slot.phase is Phase.SERVING:
                model = state.recipes[held.slot.runs].engine.served_model_name or ""
                url = f"http://127.0.0.1:{held.port}"
                told += [
                    self._threads.submit(answered_well, url, model, sample, self._engine_key)
                    for sample in rule.samples
                ]
        return told

    def _look(
        self,
        served: tuple[Served, Served],
        rule: CanaryChecks,
        key: tuple[str, str, float],
        now_s: float,
    ) -> tuple[Verdict, str]:
        answered = self._samples[key]
        if not all(future.done() for future in answered):
            return NOTHING
        bounds = CanaryRule(
            rule.least_requests, rule.within_s, rule.most_errors, rule.slower_ratio, rule.least_good
        )
        return judge(*served, [future.result() for future in answered], now_s - key[2], bounds)


def _apart(state: State, pool: str, served: dict[str, Served]) -> tuple[Served, Served]:
    """What the canary served, and what the others did."""
    change = state.changes[pool]
    names = {
        held.slot.runs == change.candidate: version_of(state, held)
        for held in state.of_pool(pool)
        if held.slot.runs in state.recipes
    }
    return served.get(names.get(True, ""), Served()), served.get(names.get(False, ""), Served())
