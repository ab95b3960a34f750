"""Calibrate an engine model: one set of coefficients for a card, or for one model on it, from
observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.calibrate import PRIOR_SPREAD, Fit, fit
from kilocard.engine_model.coefficients import Coefficients
from kilocard.errors import KilocardError
from kilocard.fleet.observation import Observation, Value, predict_all

Floats = NDArray[np.float64]

CARD_NOISE = 0.05
"""Where one set of coefficients serves all models of a card, they differ by more than repeats do."""

FARTHEST = 0.25
"""The median error beyond which a fit speaks of something else than what was measured."""

CHECK = "check the card, the model and its weights, the layout, and that time ran at its true speed"


@dataclass(frozen=True, slots=True)
class Row:
    """One value predicted, and how far off."""

    observation: str
    model: str
    stage: int
    metric: str
    statistic: str
    error: float


def calibrate_run(
    observations: Sequence[Observation], prior: Coefficients, spread: Mapping[str, float] = PRIOR_SPREAD
) -> Fit:
    """Coefficients for one model, card and layout, from one run of it or several: they follow the
    measurement closely."""
    noise = np.concatenate([observation.noise for observation in observations])
    return _fit(observations, prior, noise, spread)


def calibrate_card(
    observations: Sequence[Observation], prior: Coefficients, spread: Mapping[str, float] = PRIOR_SPREAD
) -> Fit:
    """Coefficients for a card from runs of several models."""
    noise = np.maximum(CARD_NOISE, np.concatenate([observation.noise for observation in observations]))
    return _fit(observations, prior, noise, spread)


def _fit(
    observations: Sequence[Observation], prior: Coefficients, noise: Floats, spread: Mapping[str, float]
) -> Fit:
    measured = np.concatenate([observation.measured for observation in observations])
    return fit(lambda found: predict_all(observations, found), measured, prior, spread=spread, noise=noise)


def errors(observations: Sequence[Observation], coefficients: Coefficients) -> list[Row]:
    """Predicted ÷ measured − 1, value by value."""
    rows = []
    for observation in observations:
        missed = observation.predict(coefficients) / observation.measured - 1
        for value, error in zip(observation.values, missed, strict=True):
            where = (observation.name, observation.case.model, value.stage, value.metric, value.statistic)
            rows.append(Row(*where, float(error)))
    return rows


def median_error(rows: Sequence[Row], metric: str, statistic: str = "mean", share: float = 0.5) -> float:
    """The median (or another quantile) of the absolute errors of one metric; NaN where there is none."""
    found = [abs(row.error) for row in rows if (row.metric, row.statistic) == (metric, statistic)]
    return float(np.quantile(found, share)) if found else float("nan")


def require_predictable(observation: Observation, prior: Coefficients) -> None:
    """Refuse values that the case does not give at all, such as a TPOT of one-token answers."""
    for value, number in zip(observation.values, observation.predict(prior), strict=True):
        if not 0 < number < np.inf:
            raise KilocardError(f"the case gives no {observation.label(value)} to compare with: leave it out")


def require_near(observation: Observation, missed: Floats) -> None:
    """Refuse a fit that is far off on the very values that it was fitted to."""
    middle = float(np.median(np.abs(missed)))
    if not middle <= FARTHEST:
        worst = int(np.argmax(np.abs(missed)))
        label = observation.label(observation.values[worst])
        raise KilocardError(
            f"the engine model does not fit: the median error is {middle:.0%} of what it was fitted to "
            f"(at most {FARTHEST:.0%}), {label} is off by {missed[worst]:+.0%}; "
            f"{CHECK}"
        )


def no_less_than_seen(
    shown: Mapping[str, float], values: Sequence[Value], missed: Floats
) -> dict[str, float]:
    """The errors that a kind has shown, and no less than the median of these on each metric; a metric that
    was not measured is no better than all that were."""
    sizes = np.abs(missed)
    found = {}
    for metric, error in shown.items():
        mine = np.array([value.metric == metric for value in values])
        own = sizes[mine] if mine.any() else sizes
        seen = float(np.ceil(1000 * np.median(own)) / 1000) if own.size else 0.0
        found[metric] = max(error, seen)
    return found
