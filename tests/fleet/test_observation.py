"""Observations: statistics of simulated requests as of measured ones, and fits that return to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kilocard.engine_model.calibration import calibration_for
from kilocard.engine_model.coefficients import Coefficients
from kilocard.errors import KilocardError
from kilocard.fleet import simulate_case
from kilocard.fleet.calibrating import Row, calibrate_run, errors, median_error
from kilocard.fleet.given import observation_of_case
from kilocard.fleet.measured import observation_of_run
from kilocard.fleet.observation import WHOLE_RUN, Observation, Value
from kilocard.specs import Case, case_from
from kilocard.stats import summarise


def a_case(**workload: object) -> Case:
    asked = {"prompt_tokens": 300, "output_tokens": 40, "requests": 600, "rate_per_s": 20.0} | workload
    return case_from({"model": "qwen3-8b", "card": "h100-sxm", "workload": asked})


def closed_case() -> Case:
    stages = [{"concurrency": level, "requests": 40} for level in (1, 4, 16)]
    return a_case(stages=stages, requests=None, rate_per_s=None)


def test_predictions_are_the_numbers_that_the_simulator_reports() -> None:
    case = a_case()
    calibration = calibration_for("h100-sxm")
    run, result = simulate_case(case)
    values = tuple(Value(WHOLE_RUN, metric, "mean", 1.0) for metric in ("ttft_s", "e2e_s", "tpot_s"))
    predicted = Observation("x", case, values).predict(calibration.coefficients)
    reported = [result["run"][value.metric]["mean"] for value in values]
    assert predicted == pytest.approx(reported, rel=1e-9)
    assert summarise(run)[0].requests == 600


def test_each_level_of_a_closed_loop_is_simulated_by_itself() -> None:
    values = tuple(Value(stage, "tpot_s", "p50", 1.0) for stage in (0, 1, 2))
    slower = Observation("x", closed_case(), values).predict(Coefficients())
    assert np.all(np.diff(slower) > 0)


def test_a_sweep_of_the_simulator_calibrates_back_to_itself() -> None:
    truth = Coefficients(weights_efficiency=0.6, step_s=2e-3, request_s=20e-3)
    values = tuple(Value(stage, metric, "p50", 1.0) for stage in (0, 2) for metric in ("ttft_s", "tpot_s"))
    blank = Observation("x", closed_case(), values)
    measured = tuple(
        replace(value, measured=float(number))
        for value, number in zip(values, blank.predict(truth), strict=True)
    )
    found = calibrate_run([Observation("x", closed_case(), measured)], Coefficients())
    assert np.abs(found.errors).max() < 0.01
    unseen = Observation("x", closed_case(), (Value(1, "tpot_s", "p50", 1.0),))
    assert unseen.predict(found.coefficients) == pytest.approx(unseen.predict(truth), rel=0.02)


def test_a_simulated_run_is_an_observation_like_any_other() -> None:
    run, _ = simulate_case(a_case())
    run = replace(
        run, stamp=replace(run.stamp, workload={**run.stamp.workload, "stages": {"0": {"rate_per_s": 20.0}}})
    )
    observation = observation_of_run(run, "h100-sxm")
    assert observation.case.workload.prompt_tokens == 300
    table = observation.compare(calibration_for("h100-sxm").coefficients)
    assert set(table["metric"]) == {"ttft_s", "tpot_s", "output_tokens_per_s"}
    assert table["error"].abs().max() < 0.1


def test_numbers_beside_a_case(tmp_path: object) -> None:
    observation = observation_of_case(a_case(), "ttft_s=0.05, e2e_s.p50=1.5")
    assert observation.values == (
        Value(WHOLE_RUN, "ttft_s", "mean", 0.05),
        Value(WHOLE_RUN, "e2e_s", "p50", 1.5),
    )


@pytest.mark.parametrize(
    "text", ["ttft_s=fast", "ttft_s=-1", "speed=1", "ttft_s=nan", "ttft_s.p51=1", "none.json"]
)
def test_what_is_no_measurement_is_one_line(text: str) -> None:
    with pytest.raises(KilocardError) as raised:
        observation_of_case(a_case(), text)
    assert "\n" not in str(raised.value)


def test_a_result_of_simulate_can_be_a_measurement(tmp_path) -> None:
    path = tmp_path / "measured.yaml"
    path.write_text("stages:\n- {ttft_s: {mean: 0.05, p99: 0.2}, e2e_s: 1.5}\n- {stage: 1, e2e_s: 2.0}\n")
    stages = [{"rate_per_s": 5, "duration_s": 10}, {"rate_per_s": 9, "duration_s": 10}]
    case = a_case(stages=stages, requests=None, rate_per_s=None)
    values = observation_of_case(case, str(path)).values
    assert [(value.stage, value.metric, value.measured) for value in values] == [
        (0, "ttft_s", 0.05),
        (0, "ttft_s", 0.2),
        (0, "e2e_s", 1.5),
        (1, "e2e_s", 2.0),
    ]


def test_the_median_error_is_of_absolute_values() -> None:
    rows = [Row("r", "m", 0, "e2e_s", "mean", error) for error in (-0.3, 0.1, 0.2)]
    assert median_error(rows, "e2e_s") == pytest.approx(0.2)
    assert np.isnan(median_error(rows, "ttft_s"))


def test_errors_are_predicted_over_measured_less_one() -> None:
    value = Value(WHOLE_RUN, "e2e_s", "mean", 1.0)
    seconds = Observation("x", a_case(), (value,)).predict(Coefficients())[0]
    row = errors([Observation("x", a_case(), (replace(value, measured=seconds / 2),))], Coefficients())[0]
    assert row.error == pytest.approx(1.0)
