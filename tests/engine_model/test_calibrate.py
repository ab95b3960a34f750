"""Fits: known coefficients come back, the prior fills the silence, odd rows stay odd."""

from __future__ import annotations

import numpy as np
import pytest

from kilocard.engine_model.calibrate import PRIOR_SPREAD, WIDE_SPREAD, fit
from kilocard.engine_model.coefficients import Coefficients
from kilocard.engine_model.step_time import step_time
from kilocard.errors import KilocardError

STEPS = [(1, 1000, 1), (8, 8000, 8), (32, 40_000, 32), (128, 200_000, 128), (256, 90_000, 256)]
TRUTH = Coefficients(weights_efficiency=0.7, kv_efficiency=0.6, step_s=2e-3, sequence_s=30e-6)


def predict(found: Coefficients) -> np.ndarray:
    steps = step_time("qwen3-8b", "h100-sxm", coefficients=found)
    return np.array([steps.step_s(tokens, kv, sequences) for tokens, kv, sequences in STEPS])


def test_what_made_the_measurements_is_found_again() -> None:
    found = fit(predict, predict(TRUTH), Coefficients(), spread=WIDE_SPREAD, noise=1e-3)
    assert found.errors == pytest.approx(0, abs=2e-3)
    assert found.coefficients.kv_efficiency == pytest.approx(TRUTH.kv_efficiency, rel=0.05)


def test_what_no_measurement_tells_stays_as_it_was() -> None:
    found = fit(predict, predict(TRUTH), Coefficients(), spread=WIDE_SPREAD, noise=1e-3).coefficients
    assert found.allreduce_s == pytest.approx(Coefficients().allreduce_s)
    assert found.request_s == pytest.approx(Coefficients().request_s)


def test_only_the_named_coefficients_move() -> None:
    found = fit(predict, predict(TRUTH), Coefficients(), spread={"step_s": 1.0}).coefficients
    assert found.with_(step_s=Coefficients().step_s) == Coefficients()
    assert found.step_s > Coefficients().step_s


def test_one_odd_row_does_not_drag_the_others_along() -> None:
    spoilt = predict(TRUTH)
    spoilt[0] *= 3
    found = fit(predict, spoilt, Coefficients(), spread=WIDE_SPREAD, noise=0.01)
    assert np.abs(found.errors[1:]).max() < 0.06
    assert found.errors[0] < -0.5


def test_more_noise_keeps_nearer_to_the_prior() -> None:
    def moved(noise: float) -> float:
        found = fit(predict, predict(TRUTH), Coefficients(), spread=PRIOR_SPREAD, noise=noise).coefficients
        return abs(np.log(found.step_s / Coefficients().step_s))

    assert moved(0.5) < moved(0.01)


@pytest.mark.parametrize(
    "change",
    [{"weights_efficiency": 0.0}, {"kv_efficiency": 2.5}, {"step_s": -1e-3}, {"request_s": float("nan")}],
)
def test_no_share_or_time_that_cannot_be(change: dict[str, float]) -> None:
    with pytest.raises(KilocardError, match=next(iter(change))):
        Coefficients(**change)
