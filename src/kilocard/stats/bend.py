"""Where a sweep bends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kilocard.errors import KilocardError
from kilocard.stats.summary import StageSummary


@dataclass(frozen=True, slots=True)
class Knee:
    """Where a sweep bends. `reached` is False when the last level is the best one: go on to higher ones."""

    concurrency: int
    reached: bool
    rule: str = (
        "the concurrency N that maximises power, throughput / latency, which by Little's law is X²/N"
        " (Kleinrock 1979): past it latency grows faster than throughput"
    )


def knee(concurrency: Sequence[int], throughput_per_s: Sequence[float]) -> Knee:
    """The level of a closed-loop sweep with the most power.

    Power is throughput over latency; N = X·R (Little) makes it X²/N, which needs no latency and no fit. Past
    its maximum one per cent more concurrency buys less than half a per cent more throughput and costs more
    than half a per cent of latency. Ties go to the lower level. L. Kleinrock, "Power and deterministic rules
    of thumb for probabilistic problems in computer communications", ICC 1979.
    """
    if len(concurrency) != len(throughput_per_s) or not concurrency:
        raise KilocardError("a knee needs one throughput for each concurrency, and at least one of them")
    levels = sorted(zip(concurrency, throughput_per_s, strict=True))
    power = [rate**2 / level for level, rate in levels]
    best = int(np.argmax(power))
    return Knee(levels[best][0], reached=best < len(levels) - 1)


def knee_of(stages: Sequence[StageSummary]) -> Knee | None:
    """The knee of a run's closed-loop stages, by output tokens/s; None with fewer than three levels."""
    levels = [
        (stage.concurrency, stage.output_tokens_per_s)
        for stage in stages
        if stage.concurrency and stage.output_tokens_per_s
    ]
    return knee([level for level, _ in levels], [rate for _, rate in levels]) if len(levels) >= 3 else None


def highest_within(stages: Sequence[StageSummary], share: float = 0.99) -> StageSummary | None:
    """The last stage in which at least `share` of the requests met the summary's SLO."""
    good = [stage for stage in stages if stage.goodput_ratio is not None and stage.goodput_ratio >= share]
    return good[-1] if good else None
