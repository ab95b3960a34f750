"""Published runs: what ships comes as near to them as it says; skipped where the tables are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilocard.engine_model.calibration import calibration_for
from kilocard.errors import KilocardError
from kilocard.fleet.calibrating import errors, median_error
from kilocard.fleet.degrees import HALVES, judged_by_others, judged_by_splits, medians, shipped_errors
from kilocard.fleet.observation import WHOLE_RUN
from kilocard.fleet.published import (
    VARIABLE,
    batch_rows,
    fitted_part,
    published_folder,
    rate_table,
    request_run,
)
from kilocard.fleet.published.batches import batches_in, measured_batches, predict_batches
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
    assert np.median(missed[:half]) < 0.05
    assert np.median(missed[half:]) < 0.03


@pytest.mark.parametrize("degree", [2, 4])
def test_batches_that_were_not_fitted_are_within_the_bars_at_each_degree(folder: Path, degree: int) -> None:
    rows = [row for row in judged_by_splits(folder, HALVES) if row.tensor_parallel == degree]
    found = medians(rows)
    assert found["prompt_median"] < 0.10
    assert found["token_median"] < 0.05


def test_the_errors_that_ship_are_those_of_the_fits(folder: Path) -> None:
    fresh = judged_by_splits(folder, HALVES[:1])
    shipped = [row for row in shipped_errors() if row.fitted_on == HALVES[0]]
    assert [row.prompt_error for row in shipped] == pytest.approx(
        [row.prompt_error for row in fresh], abs=1e-3
    )
    assert [row.token_error for row in shipped] == pytest.approx([row.token_error for row in fresh], abs=1e-3)


def test_a_table_of_other_columns_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "other.csv"
    table.write_text("model,hardware\nllama2-70b,h100-80gb\n")
    with pytest.raises(KilocardError, match=r"other.csv lacks the columns batch_size"):
        batches_in(table)
    columns = "model,hardware,tensor_parallel,prompt_size,batch_size,token_size,prompt_time,token_time\n"
    table.write_text(f"{columns}gpt,h100-80gb,8,512,1,128,50,20\n")
    with pytest.raises(KilocardError, match="no row of llama2-70b, bloom-176b"):
        batches_in(table)


@pytest.mark.parametrize("text", [b"", b"\n\n", b"\xff\xfe\x00\x80", b'"', b"a\n1,2,3\n1,2,3,4\n"])
def test_a_file_that_is_no_table_is_one_line(tmp_path: Path, text: bytes) -> None:
    table = tmp_path / "other.csv"
    table.write_bytes(text)
    with pytest.raises(KilocardError, match=r"other\.csv (is no table|lacks the columns)") as refused:
        batches_in(table)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("8,512,1,128,0,20", "row 2: prompt_time 0"),
        ("8,512,1,128,50,-20", "row 2: token_time -20"),
        ("8,512,1,128,,20", "row 2: prompt_time nan"),
        ("8,512,1,128,50,inf", "row 2: token_time inf"),
        ("8,512,1,128,fast,20", "row 2: prompt_time fast: give ms over 0"),
        ("8,512,1.5,128,50,20", "row 2: batch_size 1.5: give whole numbers from 1"),
        ("eight,512,1,128,50,20", "row 2: tensor_parallel eight"),
        ("8,,1,128,50,20", "row 2: prompt_size nan"),
        ("8,512,1,0,50,20", "row 2: token_size 0"),
        ("8,512,1,1e300,50,20", "row 2: token_size 1e\\+300"),
    ],
)
def test_a_cell_that_is_no_number_is_told_by_its_row(tmp_path: Path, cells: str, said: str) -> None:
    table = tmp_path / "other.csv"
    columns = "model,hardware,tensor_parallel,prompt_size,batch_size,token_size,prompt_time,token_time\n"
    table.write_text(f"{columns}llama2-70b,h100-80gb,8,512,1,128,50,20\nllama2-70b,h100-80gb,{cells}\n")
    with pytest.raises(KilocardError, match=said):
        batches_in(table)


def test_another_degree_and_model_are_judged_by_the_same_fit(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "eight.csv"
    columns = "model,hardware,tensor_parallel,prompt_size,batch_size,token_size,prompt_time,token_time\n"
    table.write_text(
        f"{columns}bloom-176b,h100-80gb,8,512,1,128,100,50\nllama2-70b,a100-80gb,8,512,1,128,50,20\n"
    )
    rows = judged_by_others(folder, table)
    assert [(row.model, row.tensor_parallel) for row in rows] == [("bloom-176b", 8), ("llama-2-70b", 8)]
    assert all(abs(row.prompt_error) < 2 and abs(row.token_error) < 2 for row in rows)
