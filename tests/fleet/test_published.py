"""Published runs: what ships comes as near to them as it says; skipped where the tables are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilocard.engine_model.calibration import calibration_for
from kilocard.fleet.calibrating import errors, median_error
from kilocard.fleet.observation import WHOLE_RUN
from kilocard.fleet.published import (
    VARIABLE,
    batch_rows,
    fitted_part,
    published_folder,
    rate_table,
    request_run,
)
from kilocard.fleet.published.batches import measured_batches, predict_batches
from kilocard.fleet.shipped import SECOND_HALF, fit_batches


@pytest.fixture
def folder() -> Path:
    found = published_folder()
    if found is None:
        pytest.skip(f"{VARIABLE} names no folder of published tables")
    return found


def test_the_h100_s_calibration_is_within_its_bars(folder: Path) -> None:
    rows = errors(rate_table(folder), calibration_for("h100-sxm").coefficients)
    whole = [row for row in rows if row.stage == WHOLE_RUN]
    assert median_error(whole, "e2e_s") < 0.05
    assert median_error(whole, "ttft_s") < 0.07
    assert median_error(whole, "e2e_s", "p99") < 0.10


def test_a_fit_uses_the_stages_and_not_their_sum_once_more(folder: Path) -> None:
    for run in rate_table(folder):
        part = fitted_part(run)
        assert {value.statistic for value in part.values} == {"mean"}
        assert WHOLE_RUN not in {value.stage for value in part.values}


@pytest.mark.parametrize("card", ["rtx-4090", "rtx-pro-6000"])
def test_the_second_half_of_a_run_follows_from_the_first(folder: Path, card: str) -> None:
    run = request_run(folder, card)
    found = calibration_for(card)
    ttft_s, decode_s = run.predict(found.coefficients.with_(request_s=0.0))
    e2e = (ttft_s + decode_s) / (run.ttft_s + run.decode_s) - 1
    assert np.median(np.abs(e2e[SECOND_HALF])) == pytest.approx(found.expected_error["e2e_s"], abs=0.005)
    assert np.median(np.abs(ttft_s / run.ttft_s - 1)[SECOND_HALF]) < 0.03


def test_batches_of_the_h100_are_one_step_each(folder: Path) -> None:
    batches = [batch for batch in batch_rows(folder) if batch.card == "h100-sxm"]
    found = fit_batches(folder)["h100-sxm"]
    half = len(batches)
    missed = np.abs(predict_batches(batches, found.coefficients) / measured_batches(batches) - 1)
    assert np.median(missed[:half]) < 0.08
    assert np.median(missed[half:]) < 0.03
