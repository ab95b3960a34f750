"""Whether a changed version may replace the other: its errors, its speed, its answers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import erfc, sqrt
from statistics import median

from kilocard.errors import KilocardError

LEAST_TIMES = 5
"""Fewer have no median to speak of."""
CHANCE = 0.01
"""A slowness or an error rate that chance alone brings about more often says nothing."""


class Verdict(StrEnum):
    """Nothing to say yet, a good one, a bad one."""

    WAIT = "wait"
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Served:
    """What replicas of one version served in the same stretch of time. Errors are the engine's own; seconds
    are of requests that ended well."""

    requests: int = 0
    errors: int = 0
    ttft_s: tuple[float, ...] = ()
    tpot_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class CanaryRule:
    """The checks of a cluster file's `lifecycle.canary`."""

    least_requests: int = 50
    within_s: float = 600.0
    most_errors: float = 0.01
    slower_ratio: float = 1.3
    least_good: float = 1.0

    def __post_init__(self) -> None:
        if self.slower_ratio <= 1:
            raise KilocardError(f"slower_ratio {self.slower_ratio:g} is not over 1: equal would be too slow")


def judge(
    canary: Served,
    others: Served,
    samples_good: Sequence[bool],
    waited_s: float,
    rule: CanaryRule,
) -> tuple[Verdict, str]:
    """The verdict and its reason.

    Bad is said as soon as it is sure: errors over the bound by more than chance (one-sided, binomial), a
    median TTFT or TPOT over `slower_ratio` x the others' and ranks that differ by more than chance
    (Mann and Whitney 1947), too few good samples. Good is said when enough requests were served, or the time
    is over and nothing spoke against it: nothing of at least a few requests, or of samples.
    """
    if reason := _samples(samples_good, rule) or _errors(canary, rule) or _slower(canary, others, rule):
        return Verdict.BAD, reason
    if canary.requests >= rule.least_requests:
        return Verdict.GOOD, f"{canary.requests} requests served, {canary.errors} with an error of its own"
    if waited_s >= rule.within_s and (canary.requests >= LEAST_TIMES or samples_good):
        return (
            Verdict.GOOD,
            f"nothing spoke against it in {waited_s:.0f} s, though only {canary.requests} of "
            f"{rule.least_requests} requests came",
        )
    late = f", and no sample, in {waited_s:.0f} s" if waited_s >= rule.within_s else ""
    return Verdict.WAIT, f"{canary.requests} of {rule.least_requests} requests{late}"


def _samples(good: Sequence[bool], rule: CanaryRule) -> str:
    if good and sum(good) < rule.least_good * len(good):
        return f"{sum(good)} of {len(good)} samples were answered well, {rule.least_good:.0%} must be"
    return ""


def _errors(canary: Served, rule: CanaryRule) -> str:
    if canary.errors > rule.most_errors * canary.requests and (
        at_least(canary.errors, canary.requests, rule.most_errors) < CHANCE
    ):
        return (
            f"{canary.errors} of {canary.requests} requests failed by its own fault, at most "
            f"{rule.most_errors:.1%} may"
        )
    return ""


def _slower(canary: Served, others: Served, rule: CanaryRule) -> str:
    for name in ("ttft_s", "tpot_s"):
        own, usual = getattr(canary, name), getattr(others, name)
        if len(own) < LEAST_TIMES or not usual:
            continue
        ratio = median(own) / median(usual) if median(usual) else 1.0
        if ratio > rule.slower_ratio and chance_of_greater(own, usual) < CHANCE:
            return (
                f"its median {name[:4].upper()} is {ratio:.2f} x the others' "
                f"({1000 * median(own):.1f} and {1000 * median(usual):.1f} ms), at most "
                f"{rule.slower_ratio:g} x may be"
            )
    return ""


def at_least(errors: int, requests: int, share: float) -> float:
    """The chance of so many errors or more among requests that each fail with this share."""
    if errors <= 0:
        return 1.0
    if share <= 0:
        return 0.0
    chance, total = (1.0 - share) ** requests, 0.0
    for k in range(errors):
        total += chance
        chance *= (requests - k) / (k + 1) * share / (1.0 - share) if share < 1 else 0.0
    return max(0.0, 1.0 - total)


def chance_of_greater(own: Sequence[float], others: Sequence[float]) -> float:
    """The chance that values of one kind rank so high among the others by accident: Mann and Whitney's U in
    its normal approximation, ties counted half, no correction for them."""
    n, m = len(own), len(others)
    ordered = sorted(others)
    u = sum(_rank(value, ordered) for value in own)
    spread = sqrt(n * m * (n + m + 1) / 12)
    return 0.5 * erfc((u - n * m / 2) / spread / sqrt(2))


def _rank(value: float, ordered: Sequence[float]) -> float:
    return (bisect_left(ordered, value) + bisect_right(ordered, value)) / 2
