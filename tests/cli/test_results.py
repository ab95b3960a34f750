"""What `kilocard report` prints, of any run that it can read."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilocard import cli
from kilocard.record import Kind, Run, Stamp

STAMP = Stamp(
    *(Kind.MEASURED, "m", "vLLM", "1", "c", {"name": "b"}, "2026-01-02"),
    workload={"stages": {"0": {"concurrency": 2}}},
    client={"lag": float("inf")},
)


@pytest.fixture(autouse=True)
def only_these_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "COMMAND_MODULES", ("bench",))


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", *map(str, arguments)])
    printed = capsys.readouterr()
    return int(stop.value.code or 0), printed.out, printed.err


def row(number: int, **changes: Any) -> dict[str, Any]:
    times = {"sent_s": number, "first_token_s": number + 0.5, "last_token_s": number + 0.9}
    well = {"request_id": str(number), "stage": 0, "status": "ok", "output_tokens": 5, "prompt_tokens": 5}
    return well | times | changes


def test_goodput_and_attainment_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(number) for number in range(30)] + [row(number, status="lost") for number in range(30, 40)]
    path = Run.from_rows(rows, STAMP).write(tmp_path / "r.parquet")
    code, out, _ = report(capsys, path, "--slo", "ttft=1")
    assert code == 0
    assert re.search(r"goodput at 2: \d\.\d\d requests/s in the steady window of \d\d\.\d s;", out), out
    assert "attainment: 75.0% of all 40 requests met the SLO" in out


def test_json_has_null_for_what_is_undefined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Run.from_rows([row(0)], STAMP).write(tmp_path / "r.parquet")
    code, out, _ = report(capsys, path, "--json")
    printed = json.loads(out, parse_constant=pytest.fail)
    assert (code, printed["stamp"]["client"]) == (0, {"lag": None})


def test_a_run_that_was_never_sent_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(number, sent_s=None) for number in range(8)]
    path = Run.from_rows(rows, STAMP).write(tmp_path / "r.parquet")
    for more in ((), ("--json",), ("--by", "node")):
        code, out, error = report(capsys, path, *more)
        assert (code, out, error.count("\n")) == (2, "", 1)
        assert "of its 8 requests that ended well, 8 have no sent_s" in error


seconds = st.one_of(st.none(), st.floats(0, 1e4))
counts = st.one_of(st.none(), st.integers(0, 2**31))
any_rows = st.fixed_dictionaries(
    {"stage": st.one_of(st.none(), st.integers(0, 2)), "status": st.sampled_from(["ok", "lost", None])},
    optional={
        **dict.fromkeys(("sent_s", "first_token_s", "last_token_s", "scheduled_s", "max_gap_s"), seconds),
        **dict.fromkeys(("prompt_tokens", "output_tokens", "max_tokens"), counts),
    },
)


forms = st.sampled_from(["", "--json", "--slo ttft=1,e2e=9", "--by status --json", "--vllm-json vllm.json"])


@given(st.lists(any_rows, max_size=8), forms)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_table_is_a_report_or_one_line(
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    rows: list[dict[str, Any]],
    form: str,
) -> None:
    with contextlib.chdir(tmp_path_factory.getbasetemp()):
        path = Run.from_rows(rows, STAMP).write("any.parquet")
        code, _, error = report(capsys, path, *form.split())
    assert code in (0, 2), error
    assert error.count("\n") == (code == 2)
