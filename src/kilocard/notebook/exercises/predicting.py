"""Exercises of the chapter on prediction: step times, waits in steps, and margins."""

from __future__ import annotations

import math

from kilocard.engine_model.calibration import calibration_for, shown_from_one_run
from kilocard.engine_model.step_time import step_time
from kilocard.notebook.exercises.exercise import Exercise


def _tokens_per_s() -> float:
    found = calibration_for("h100-sxm").coefficients
    return 1 / step_time("qwen3-8b", "h100-sxm", coefficients=found).step_s(1, 1000, 1)


def _bound_per_s() -> float:
    return 3350 / 16.4


def _cards(longer: float) -> float:
    return float(math.ceil(1000 / (42 / longer)))


def _one_run() -> float:
    return shown_from_one_run()["e2e_s"]


EXERCISES = (
    Exercise(
        "10.1",
        _tokens_per_s,
        "tokens/s",
        lambda it: (
            "15.1 GB without the input table ÷ (3,350 GB/s × 0.84) = 5.3 ms; 0.15 GB of KV add 0.06 ms, "
            f"36 layers 0.2 ms and the step itself 0.8 ms: 6.4 ms, {it:.0f} tokens/s. The bound of chapter 1 "
            "says 204: the rest is efficiency, and the engine's own time."
        ),
        tolerance_ratio=0.06,
        mistakes=lambda: {"the datasheet's bandwidth is taken whole": _bound_per_s()},
    ),
    Exercise(
        "10.2",
        lambda: 2.5 * 20 + 7,
        "ms",
        lambda it: (
            "On average half a step is left of the one that runs, the next is planned already, and then its "
            f"own step reads the prompt: 2.5 × 20 ms and 7 ms outside the engine, {it:.0f} ms. With "
            "scheduling that is not asynchronous it would be 1.5 steps."
        ),
        tolerance_ratio=0.06,
        mistakes=lambda: {
            "the step planned ahead is forgotten": 1.5 * 20 + 7,
            "the time outside the engine is forgotten": 50.0,
        },
    ),
    Exercise(
        "10.3",
        lambda: _cards(1.15),
        "cards",
        lambda it: (
            f"If the step is 15 % longer than predicted, a card serves 42 ÷ 1.15 = 36.5 requests/s: {it:.0f} "
            f"cards. One measured run brings the error of E2E to {100 * _one_run():.1f} %, and the order to "
            f"{_cards(1 + _one_run()):.0f}. That error is a median: half of the predictions were farther off."
        ),
        tolerance_ratio=0.001,
        mistakes=lambda: {"the prediction is taken at its word": 24.0, "the margin is taken off twice": 32.0},
    ),
)
