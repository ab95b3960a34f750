"""One slow replica of many: what it gets, what its users and all others see of it, and how it is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from kilocard.record import Run, Status
from kilocard.routing.slow import FAST, Paced, SlowRule, judge
from kilocard.stats import e2e_s, tpot_s, ttft_s


@dataclass(frozen=True, slots=True)
class Window:
    """A span of a run: its requests, one replica's share of them and of the time in flight, and quantiles of
    TPOT and TTFT, in milliseconds, over all replicas."""

    requests: int
    share_percent: float
    in_flight_percent: float
    tpot_p50_ms: float
    tpot_p99_ms: float
    ttft_p99_ms: float


def seen_in(run: Run, replica: str, from_s: float = 0.0, to_s: float = inf) -> Window:
    """What was sent in a span of the run (from, to; seconds on its clock)."""
    table = run.requests
    sent = table[(table["sent_s"] >= from_s) & (table["sent_s"] < to_s) & (table["status"] == Status.OK)]
    mine = sent["replica"] == replica
    held_s = e2e_s(sent)
    return Window(
        requests=len(sent),
        share_percent=100 * float(mine.mean()),
        in_flight_percent=100 * float(held_s[mine].sum() / held_s.sum()),
        tpot_p50_ms=1000 * float(tpot_s(sent).quantile(0.5)),
        tpot_p99_ms=1000 * float(tpot_s(sent).quantile(0.99)),
        ttft_p99_ms=1000 * float(ttft_s(sent).quantile(0.99)),
    )


def judged_after(rule: SlowRule, seen: Sequence[Paced], seconds: int = 10) -> list[int]:
    """The numbers of those that are slow in a pool that has looked like this for so long: the gateway's own
    judgement, once a second."""
    pool = [FAST for _ in seen]
    for second in range(seconds + 1):
        now_s = float(second)
        pool = judge(pool, rule, [it._replace(seen_s=now_s) for it in seen], now_s).pool
    return [number for number, it in enumerate(pool) if it.slow]
