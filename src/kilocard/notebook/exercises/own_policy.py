"""Exercises on policies of one's own: one is played on held-out traffic, the others ask how far to trust
it."""

from __future__ import annotations

import html
import inspect
from math import erf, sqrt

import numpy as np
from IPython.display import HTML, display

from kilocard.notebook.exercises.exercise import Exercise
from kilocard.notebook.leaderboard import Margin, against_the_reference
from kilocard.routing.policies import REFERENCE
from kilocard.routing.replicas import Policy

NAME = "4.6.1"
ENTRANTS, SIGMA_POINTS = 20, 2.0
LEAD_PERCENT, BY_SEED_PERCENT = 0.5, 1.0
IDLE_ENGINES = 8


def sparing(replicas, arrival, random):  # type: ignore[no-untyped-def]
    """The solution of 4.6.1, as a reader would write it."""
    uncached = np.maximum(arrival.prompt_tokens - replicas.cached_tokens, 0)
    work = 4 + replicas.active + (replicas.prompt_tokens + 1.5 * uncached) / 60
    cost = work * np.maximum(1, replicas.slowness) ** 1.5
    cost[replicas.weight == 0] = np.inf
    return int(np.argmin(cost))


def check_policy(policy: Policy | None) -> None:
    """Play a policy on held-out traffic, say how it does against the reference, and fold a solution
    beneath."""
    verdict = html.escape(verdict_on(policy))
    lines = inspect.getsource(sparing).replace("  # type: ignore[no-untyped-def]", "")
    lines = "".join(line for line in lines.splitlines(True) if '"""' not in line)
    told = (
        f"One that {lead(against_the_reference(sparing))}. It is the one chosen of 36 above, which is ahead "
        "on sealed seeds, too. How often did you look?"
    )
    display(
        HTML(
            f'<div class="kc-exercise"><p class="kc-verdict"><strong>Exercise {NAME}.</strong> {verdict}</p>'
            f"<details><summary>Solution</summary><p>{html.escape(told)}</p>"
            f"<pre>{html.escape(lines)}</pre></details></div>"
        )
    )


def verdict_on(policy: Policy | None) -> str:
    """Ahead of the reference or not, by how much, and whether that is more than chance."""
    if policy is None:
        return "Not answered yet: put your function in place of None and run the cell again."
    found = against_the_reference(policy)
    if found.beats:
        return f"Right: your policy {lead(found)}."
    if found.percent > 0:
        return f"Not yet: your policy {lead(found)}, which chance alone may give."
    return f"Not yet: your policy {lead(found)}."


def lead(found: Margin) -> str:
    """A margin in words."""
    if not found.percent:
        return f"keeps the promise exactly as often as {REFERENCE}"
    word = "beats" if found.percent > 0 else "falls behind"
    return (
        f"{word} the reference ({REFERENCE}) by {abs(found.percent):.2f} ± {found.error_percent:.2f} % on "
        f"held-out traffic, and is ahead in {found.won} of {found.runs} runs"
    )


def expected_best(count: int) -> float:
    """What the best of so many draws is expected to lie above their mean, in standard deviations."""
    places = np.linspace(-8, 8, 20_001)
    below = np.array([0.5 * (1 + erf(place / sqrt(2))) for place in places]) ** count
    return float(np.trapezoid(np.where(places >= 0, 1 - below, -below), places))


def _lucky_lead_points() -> float:
    return SIGMA_POINTS * expected_best(ENTRANTS)


def _seeds_needed() -> float:
    return (2 * BY_SEED_PERCENT / LEAD_PERCENT) ** 2


EXERCISES = (
    Exercise(
        "4.6.2",
        _lucky_lead_points,
        "points",
        lambda it: (
            f"The best of twenty draws lies {it / SIGMA_POINTS:.2f} standard deviations over their mean, so "
            f"{it:.1f} points of goodput, and all of it is luck. The best of a hundred would seem 5.0 points "
            "better. The more you try, the more you find."
        ),
        tolerance_ratio=0.12,
        mistakes=lambda: {
            "the scatter of one policy is taken for the best of twenty": SIGMA_POINTS,
            "the scatters of all are added up": ENTRANTS * SIGMA_POINTS,
        },
    ),
    Exercise(
        "4.6.3",
        _seeds_needed,
        "seeds",
        lambda it: (
            "The standard error is 1 % ÷ √n, and twice that has to be under the lead of 0.5 %: n = (2 × 1 ÷ "
            f"0.5)² = {it:.0f}. Half the lead costs four times the seeds. In virtual time they are cheap; on "
            "a cluster, pair the runs first: the same requests under both policies scatter less."
        ),
        tolerance_ratio=0.07,
        mistakes=lambda: {
            "one standard error is taken for enough": 4.0,
        },
    ),
    Exercise(
        "4.6.4",
        lambda: 100.0,
        "%",
        lambda it: (
            "All eight costs are equal, and argmin names the first of equals: engine 0, each time, "
            f"{it:.0f} % of the requests. Its card grows old, its cache knows every prompt, and the other "
            "seven are tried for the first time on a busy day. Shipped policies draw lots among equals."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "equals are thought to be chosen alike": 100 / IDLE_ENGINES,
        },
    ),
)
