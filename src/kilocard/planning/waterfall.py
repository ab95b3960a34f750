"""Where the ideal goes: what each thing that a real cluster has takes off a replica's tokens a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kilocard.planning.candidate import OFF, Candidate
from kilocard.planning.trial import STEPS, Trials, highest_near, meets
from kilocard.specs.target import Target

MANY = 100
"""Replicas: fewer of them share bursts less well."""
SLOW_TIMES = 5.0
SLOW_ONE = [{"kind": "slow", "at_s": 0, "for_s": 86_400, "replica": "chat-0", "times": SLOW_TIMES}]
FINER = 2
"""A step of the search's ladder is too coarse to tell small things apart."""


@dataclass(frozen=True, slots=True)
class Fall:
    """A replica's tokens a second within the SLO after one thing more, and what that leaves of the before."""

    what: str
    tokens_per_s: float
    share: float


def waterfall(
    target: Target, candidate: Candidate, calibrations: dict[str, str] | None = None
) -> tuple[Fall, ...]:
    """From the steady state in closed form to a cluster in simulation, one thing after the other: arrivals
    that come as they like, uneven lengths, several gateways, unequal cards, one slow replica in a hundred."""
    files = calibrations or {}
    even = target.model_copy(
        update={
            "prompt_tokens": max(1, round(target.prompt_mean)),
            "output_tokens": max(1, round(target.output_mean)),
            "variance": 0.0,
        }
    )
    uneven = target.model_copy(update={"variance": 0.0})
    one_gateway = {"gateway": {"gateways": 1}}
    cases: list[tuple[str, Target, dict[str, Any]]] = [
        ("arrivals as they come", even, one_gateway),
        ("uneven lengths", uneven, one_gateway),
        ("gateways that do not know of each other", uneven, {}),
        ("unequal cards", target, {}),
        (f"one replica in {MANY} slower by {SLOW_TIMES:g}", target, {"faults": SLOW_ONE}),
    ]
    ideal = Trials(even, files).bound_per_s(candidate) * target.output_mean / OFF
    falls, before = [Fall("steady state, in closed form", ideal, 1.0)], ideal
    for what, its, changes in cases:
        now = borne(its, candidate, files, near=before, **changes)
        falls.append(Fall(what, now, now / before if before else 0.0))
        before = now
    return tuple(falls)


def efficiency(falls: tuple[Fall, ...]) -> float:
    """What is left of the ideal."""
    return min(1.0, falls[-1].tokens_per_s / falls[0].tokens_per_s) if falls[0].tokens_per_s else 0.0


def borne(
    target: Target,
    candidate: Candidate,
    calibrations: dict[str, str] | None = None,
    *,
    near: float = 0.0,
    **changes: Any,
) -> float:
    """Tokens a second that a replica among many bears within the SLO, to a hundredth of its bound; soon found
    where it is `near` a guess. `changes` are a scenario's, or `gateway`."""
    trials = Trials(target, calibrations or {})
    bound_s = trials.bound_per_s(candidate)

    def holds(step: int) -> bool:
        per_s = bound_s * step / (FINER * STEPS)
        if step == 0:
            return True
        seen = trials.seen(candidate, MANY, MANY * per_s, **changes)
        return meets(target.slo, seen)

    unit = bound_s * target.output_mean / (FINER * STEPS)
    return unit * highest_near(holds, min(FINER * STEPS, round(near / unit)), FINER * STEPS)


def with_reserve(falls: tuple[Fall, ...], headroom: float, needed: int, spares: int) -> tuple[Fall, ...]:
    """And what is held back on purpose: for failures, for what nobody foresaw."""
    last = falls[-1].tokens_per_s
    failing = needed / (needed + spares)
    return (
        *falls,
        Fall("spares for what fails", last * failing, failing),
        Fall("headroom", last * failing / (1 + headroom), 1 / (1 + headroom)),
    )
