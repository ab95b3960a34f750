"""A run survives its file, and a file that is no run says so."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.record import REQUEST_COLUMNS, Kind, Run, Stamp, Status, stamp_from

STAMP = Stamp(
    Kind.MEASURED,
    "m",
    "vLLM",
    "0.1",
    "cpu",
    {"name": "cpu-2core"},
    "2026-01-02T03:04:05+00:00",
    workload={"stages": {"0": {"concurrency": 8}}},
    client={"late_sends": 0},
)

seconds = st.one_of(st.none(), st.floats(0, 1e5))
counts = st.one_of(st.none(), st.integers(0, 2**40))
texts = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=20))
OF_TYPE = {"Float64": seconds, "Int64": counts, "string": texts}
rows = st.fixed_dictionaries({}, optional={name: OF_TYPE[kind] for name, kind in REQUEST_COLUMNS.items()})


@given(
    st.lists(rows, max_size=6), st.dictionaries(st.text(max_size=5), st.lists(st.floats(0, 9), max_size=3))
)
@settings(max_examples=30)
def test_a_run_is_the_same_after_its_file(
    tmp_path_factory: pytest.TempPathFactory, given_rows: list[dict[str, Any]], chunks: dict[str, list[float]]
) -> None:
    samples = [{"t_s": 0.5, "replica": "a", "running": 3}]
    run = Run.from_rows(given_rows, STAMP, samples, chunks)
    again = Run.read(run.write(tmp_path_factory.mktemp("run") / "run.parquet"))
    pd.testing.assert_frame_equal(again.requests, run.requests)
    pd.testing.assert_frame_equal(again.samples, run.samples)
    assert again.stamp == STAMP
    assert again.chunk_times_s == chunks


def test_what_a_row_leaves_out_is_null_and_not_zero() -> None:
    table = Run.from_rows([{"request_id": "a", "status": "ok"}], STAMP).requests
    assert table["output_tokens"].isna().all()
    assert list(table.columns) == list(REQUEST_COLUMNS)


def test_a_stage_is_part_of_its_run() -> None:
    run = Run.from_rows([{"stage": 1, "status": "ok"}, {"stage": 0, "status": "lost"}, {"stage": 1}], STAMP)
    assert run.stages == [0, 1]
    assert len(run.stage(1).requests) == 2
    assert run.ok["status"].tolist() == [Status.OK]


def test_an_interrupted_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Run.from_rows([{"status": "ok"}], STAMP).write(tmp_path / "run.parquet")
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    with pytest.raises(KilocardError, match="No space left"):
        Run.from_rows([], STAMP).write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_is_no_place_for_a_run() -> None:
    with pytest.raises(KilocardError, match="regular file"):
        Run.from_rows([], STAMP).write("/dev/null")
    assert not Path("/dev/null").is_file()


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(other)
    text = tmp_path / "text.parquet"
    text.write_text("hello")
    for path in (other, text, tmp_path, tmp_path / "absent.parquet"):
        with pytest.raises(KilocardError, match="kilocard bench --out"):
            Run.read(path)
    with pytest.raises(KilocardError, match="lacks the columns"):
        Run(pd.DataFrame({"status": ["ok"]}), STAMP)


def spoilt(tmp_path: Path, change: Any) -> Path:
    """A run's file with its columns or its metadata changed by another hand."""
    path = Run.from_rows([{"request_id": "1", "status": "ok", "http_status": 200}], STAMP).write(
        tmp_path / "run.parquet"
    )
    table = pq.read_table(path)
    frame, record = table.to_pandas(), json.loads(table.schema.metadata[b"kilocard"])
    frame, record = change(frame, record)
    changed = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(changed.replace_schema_metadata({b"kilocard": json.dumps(record).encode()}), path)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda frame, record: (frame.drop(columns="queue_s"), record),
        lambda frame, record: (frame.assign(http_status=["two hundred"]), record),
        lambda frame, record: (frame.assign(http_status=[float("inf")]), record),
        lambda frame, record: (frame.assign(http_status=[[1, 2]]), record),
        lambda frame, record: (frame.assign(sent_s=["soon"]), record),
        lambda frame, record: (frame, []),
        lambda frame, record: (frame, record | {"stamp": {"kind": "guessed"}}),
        lambda frame, record: (frame, record | {"stamp": {}}),
        lambda frame, record: (frame, record | {"samples": [{"running": "many"}]}),
        lambda frame, record: (frame, {"stamp": record["stamp"]}),
        lambda frame, record: (frame.assign(sent_s=[float("inf")]), record),
        lambda frame, record: (frame, record | {"samples": [{"t_s": float("inf")}]}),
        lambda frame, record: (frame, record | {"chunk_times_s": {"1": ["soon"]}}),
        *(
            lambda frame, record, name=name, value=value: (
                frame,
                record | {"stamp": record["stamp"] | {name: value}},
            )
            for name, value in (
                ("model", 7),
                ("engine", None),
                ("started_at", 5),
                ("box", []),
                ("box", {"name": 3}),
                ("workload", 7),
                ("workload", {"stages": []}),
                ("workload", {"stages": {"0": 8}}),
                ("workload", {"stages": {"0": {"concurrency": 0}}}),
                ("workload", {"stages": {"0": {"rate_per_s": float("inf")}}}),
                ("client", "well"),
                ("valid", "perhaps"),
            )
        ),
    ],
)
def test_a_spoilt_file_is_refused_in_one_line(tmp_path: Path, change: Any) -> None:
    with pytest.raises(KilocardError, match="is not a run"):
        Run.read(spoilt(tmp_path, change))


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"a": float("nan"), "b": [float("inf"), 1.5]}, {"a": None, "b": [None, 1.5]}),
        ({"a": np.int64(4), "b": np.array([1.0, np.nan])}, {"a": 4, "b": [1.0, None]}),
        ({"a": Path("/x"), 7: (1, 2)}, {"a": "/x", "7": [1, 2]}),
    ],
)
def test_what_json_has_no_word_for_costs_no_run(
    tmp_path: Path, settings: dict[Any, Any], kept: dict[str, Any]
) -> None:
    path = Run.from_rows([{"status": "ok"}], replace(STAMP, settings=settings)).write(tmp_path / "r.parquet")
    assert b"NaN" not in pq.read_schema(path).metadata[b"kilocard"]
    assert Run.read(path).stamp.settings == kept


@pytest.mark.parametrize("path", ["/proc/none/r", "a\0b", "~nobody-of-this-name/r", "x" * 300])
def test_whatever_hinders_a_write_is_one_line(path: str) -> None:
    with pytest.raises(KilocardError, match=r"\Acannot write .*; name another --out\Z"):
        Run.from_rows([], STAMP).write(path)


def test_letters_that_no_file_takes_cost_no_run(tmp_path: Path) -> None:
    rows = [{"request_id": "a", "error": "\ud800!", "sent_s": 1.5}, {"request_id": "b"}]
    kept = Run.read(Run.from_rows(rows, STAMP).write(tmp_path / "r.parquet")).requests
    assert (kept["error"][0], kept["sent_s"][0], kept["request_id"][1]) == ("?!", 1.5, "b")


def test_a_stamp_says_where_it_comes_from() -> None:
    assert STAMP.caption == "measured · cpu-2core · vLLM 0.1 · 2026-01-02"
    for kind in (Kind.EMULATED, Kind.SIMULATED):
        played = replace(STAMP, kind=kind, card="h100-sxm")
        assert played.caption == f"{kind} · h100-sxm · vLLM 0.1 · 2026-01-02"
    with pytest.raises(KilocardError, match="source"):
        Stamp(Kind.PUBLISHED, "m", "e", "1", "c", {}, "2026-01-01")
    assert stamp_from({**{name: getattr(STAMP, name) for name in Stamp.__slots__}, "of_later": 1}) == STAMP
