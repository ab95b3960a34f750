"""Fit an engine's coefficients to what was measured: least squares of logarithms, with a prior.

A run tells little about some coefficients (one layout says nothing of allreduces), so each keeps near its
prior unless
the measurements pull it away: maximum a posteriori, by Levenberg and Marquardt's method, with weights that
let a few odd rows be odd (Huber's idea, in the smooth form √(1 + z²)).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.coefficients import Coefficients

Floats = NDArray[np.float64]
Predict = Callable[[Coefficients], Floats]
"""Coefficients → the predictions, in the order of the measured values."""

PRIOR_SPREAD: Mapping[str, float] = {
    "weights_efficiency": 0.1,
    "kv_efficiency": 0.15,
    "compute_efficiency": 0.2,
    "attention_efficiency": 0.4,
    "link_efficiency": 0.5,
    "idle_expert_share": 0.5,
    "step_s": 0.5,
    "layer_s": 0.5,
    "moe_layer_s": 0.5,
    "quantized_moe_layer_s": 0.5,
    "quantized_moe_token_s": 0.7,
    "allreduce_s": 0.4,
    "sequence_s": 0.5,
    "prefill_step_s": 0.5,
    "request_s": 0.5,
}
"""How far a coefficient is expected to be from its prior: one standard deviation of its logarithm."""

SEEN_IN_BATCHES: Mapping[str, float] = {"long_message_share": 0.7, "prefill_floor_s": 0.3}
"""The same for what only tables of single steps can tell."""

WIDE_SPREAD: Mapping[str, float] = {name: max(0.5, 2 * width) for name, width in PRIOR_SPREAD.items()}
"""The same for a card of another kind than the prior's, where the measurements have to say nearly all."""

LARGEST = (2.0, 3599.0)
"""Of a share, of seconds: what `Coefficients` takes."""

NUDGE = 0.02
MOST_ROUNDS = 40
LONGEST_MOVE = 0.5
WORTHWHILE = 1e-4


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients, and predicted ÷ measured − 1 for each value they were fitted to."""

    coefficients: Coefficients
    errors: Floats


def fit(
    predict: Predict,
    measured: Floats,
    prior: Coefficients,
    *,
    spread: Mapping[str, float] = PRIOR_SPREAD,
    noise: float | Floats = 0.05,
) -> Fit:
    """The coefficients of `spread` that bring `predict` nearest to `measured`; the others stay as the prior
    has them.

    `noise` is the relative error expected of a measured value (one for all, or one each): the smaller, the
    less the prior counts.
    """
    names = tuple(spread)
    start = np.log([getattr(prior, name) for name in names])
    widths = np.array([spread[name] for name in names])

    def coefficients(at: Floats) -> Coefficients:
        values = {name: float(value) for name, value in zip(names, np.exp(at), strict=True)}
        return prior.with_(**{name: min(value, LARGEST[name[-2:] == "_s"]) for name, value in values.items()})

    def residuals(at: Floats) -> Floats:
        misses = np.log(predict(coefficients(at)) / measured) / noise
        return np.concatenate([misses, (at - start) / widths])

    best = _levenberg_marquardt(residuals, start, len(measured))
    return Fit(coefficients(best), predict(coefficients(best)) / measured - 1)


def _levenberg_marquardt(residuals: Callable[[Floats], Floats], start: Floats, measured: int) -> Floats:
    at, damping = start, 1e-2
    now = residuals(at)
    cost = _cost(now, measured)
    for _ in range(MOST_ROUNDS):
        nudged = at + NUDGE * np.eye(len(at))
        slopes = np.stack([(residuals(point) - now) / NUDGE for point in nudged], axis=1)
        weights = np.ones(len(now))
        weights[:measured] = (1 + now[:measured] ** 2) ** -0.25
        slopes, weighted = slopes * weights[:, None], now * weights
        curvature, gradient = slopes.T @ slopes, slopes.T @ weighted
        for _ in range(8):
            move = -np.linalg.solve(curvature + damping * np.diag(np.diag(curvature) + 1e-9), gradient)
            there = residuals(at + np.clip(move, -LONGEST_MOVE, LONGEST_MOVE))
            if (lower := _cost(there, measured)) < cost:
                break
            damping *= 4
        else:
            return at
        at, now, gain, cost = at + np.clip(move, -LONGEST_MOVE, LONGEST_MOVE), there, cost - lower, lower
        damping = max(damping / 4, 1e-6)
        if gain < WORTHWHILE * cost:
            break
    return at


def _cost(residuals: Floats, measured: int) -> float:
    misses = residuals[:measured]
    return float(np.sum(2 * (np.sqrt(1 + misses**2) - 1)) + np.sum(residuals[measured:] ** 2))
