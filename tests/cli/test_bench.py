"""`kilocard bench` and `report` as a user types them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilocard import cli
from kilocard.load.truth_process import TruthServer, truth_server
from kilocard.load.truth_script import Fault, Script
from kilocard.record import Run, Status
from kilocard.salvage import Saved

SHORT = ["--concurrency", "1,2,4", "--requests", "8", "--prompt-tokens", "5", "--output-tokens", "6"]


@pytest.fixture(autouse=True)
def only_these_commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cli, "COMMAND_MODULES", ("bench",))
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    for number, handler in handlers:
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def truth() -> Iterator[TruthServer]:
    with truth_server(Script(ttft_s=0.003, tpot_s=0.001)) as server:
        yield server


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def test_a_sweep_ends_as_one_json_object_and_a_file(
    truth: TruthServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run.parquet"
    assert run("bench", "--url", truth.url, "--model", "truth", *SHORT, "--out", out, "--json") == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [stage["concurrency"] for stage in printed["stages"]] == [1, 2, 4]
    assert all(stage["status"] == {"ok": 8} and stage["errors"] == 0 for stage in printed["stages"])
    assert {"mean", "p50", "p90", "p95", "p99", "n"} == set(printed["stages"][0]["ttft_s"])
    assert printed["out"] == str(out)
    assert printed["stamp"]["kind"] == "emulated"
    assert printed["knee"]["concurrency"] in (1, 2, 4)
    assert len(Run.read(out).requests) == 24
    assert list(tmp_path.iterdir()) == [out]


def test_a_report_reads_what_bench_wrote(
    truth: TruthServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, exported = tmp_path / "run.parquet", tmp_path / "vllm.json"
    assert run("bench", "--url", truth.url, *SHORT, "--out", out) == 0
    table = capsys.readouterr().out
    assert "TTFT mean" in table
    assert run("report", out) == 0
    assert capsys.readouterr().out == table
    assert (
        run("report", out, "--slo", "ttft=1,tpot=1", "--by", "stage", "--vllm-json", exported, "--json") == 0
    )
    printed = json.loads(capsys.readouterr().out)
    assert printed["stages"][0]["goodput_ratio"] == 1.0
    assert set(printed["groups"]) == {"0", "1", "2"}
    assert len(exported.read_text().splitlines()) == 3


def test_an_open_loop_has_a_stage_a_rate(truth: TruthServer, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--rate", "50,100", "--duration", "0.2", "--arrivals", "constant", "--output-tokens", "3"]
    assert run("bench", "--url", truth.url, *shape, "--json") == 0
    stages = json.loads(capsys.readouterr().out)["stages"]
    assert [(stage["rate_per_s"], stage["requests"]) for stage in stages] == [(50.0, 10), (100.0, 20)]
    assert stages[0]["ttft_from_scheduled_s"]["n"] == 10


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "other"], "'other': it serves truth"),
        (["--concurrency", "0"], "concurrency of 0"),
        (["--concurrency", "1,x"], "--concurrency '1,x'"),
        (["--requests", "-1"], "-1 requests"),
        (["--prompt-tokens", "-5"], "-5 tokens"),
        (["--output-tokens", "0"], "0 tokens"),
        (["--timeout", "-2"], "-2"),
        (["--idle-timeout", "nan"], "nan"),
        (["--warmup", "-1"], "-1 warm-up"),
        (["--rate", "-3"], "-3"),
        (["--rate", "2", "--arrivals", "weekly"], "weekly"),
        (["--endpoint", "images"], "images"),
        (["--slo", "ttft=fast"], "ttft=fast"),
        (["--slo", "speed=1"], "speed"),
        (["--vocabulary", "3"], "vocabulary of 3"),
        *((["--rate", value], value) for value in ("inf", "nan", "0", "-1", "1e-300")),
        *(
            (["--rate", "2", "--duration", value], "--duration")
            for value in ("0", "nan", "-1", "inf", "1e300")
        ),
        *((["--requests", value], "requests") for value in ("0", str(10**12))),
        (["--rate", "2", "--requests", str(10**12)], "1000000000000 requests"),
        (["--requests", str(10**12), "--out", "run.parquet"], "1000000000000 requests"),
        (["--concurrency", str(10**9), "--out", "run.parquet"], "1000000000"),
        (["--prompt-tokens", str(10**9)], "1000000000 tokens"),
        (["--output-tokens", str(10**9)], "1000000000 tokens"),
        (["--warmup", str(10**9)], "1000000000 warm-up"),
        (["--duration", "nan"], "nan"),
        (["--duration", "5"], "--rate"),
        (["--cv", "nan", "--arrivals", "gamma", "--rate", "2"], "nan"),
        (["--slo", "ttft=inf"], "finite"),
        (["--out", "/dev/full"], "/dev/full"),
    ],
)
def test_bad_input_is_one_line(
    truth: TruthServer, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("bench", "--url", truth.url, *arguments) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert says in printed.err


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://127.0.0.1:9",
            "127.0.0.1:9",
            "nonsense",
            "ftp://127.0.0.1",
            "http://[::1",
            "http://host:99999",
        ),
        *("http://a b", "http://127.0.0.1:9/\x07"),
    ],
)
def test_a_url_that_is_no_engine_is_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "--url", url) == 2
    error = capsys.readouterr().err
    assert repr(url).strip("'") in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("key", ["k\n", "clé"])
def test_a_key_that_no_header_takes_is_one_line(
    truth: TruthServer, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KILOCARD_API_KEY", key)
    assert run("bench", "--url", truth.url) == 2
    error = capsys.readouterr().err
    assert (error.count("\n"), key in error) == (1, False)
    assert "KILOCARD_API_KEY" in error


def test_a_file_that_is_no_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "absent.parquet", tmp_path, Path(__file__)):
        assert run("report", path) == 2
        error = capsys.readouterr().err
        assert str(path) in error
        assert error.count("\n") == 1


def test_failures_are_counted_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faults = {2: Fault.HTTP_500, 4: Fault.TRUNCATE}
    with truth_server(Script(ttft_s=0.001, tpot_s=0.0, faults=faults)) as server:
        assert run("bench", "--url", server.url, *SHORT, "--out", tmp_path / "r.parquet") == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert "2 of 24 requests failed (1 error, 1 lost)" in last


def test_a_dead_engine_is_said_and_what_was_measured_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.parquet"
    with truth_server(Script(ttft_s=0.001, tpot_s=0.0, faults={12: Fault.EXIT})) as server:
        assert run("bench", "--url", server.url, *SHORT, "--out", out) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "the engine is gone" in last
    assert str(out) in last
    assert (Run.read(out).stage(0).requests["status"] == Status.OK).all()


def test_a_disk_that_fills_up_costs_nothing(
    truth: TruthServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "kilocard.cli.bench.save", lambda run, path: Saved(tmp_path / "else", "the disk is full")
    )
    assert run("bench", "--url", truth.url, *SHORT, "--out", tmp_path / "r.parquet", "--json") == 1
    printed = capsys.readouterr()
    assert f"the disk is full; the run is saved in {tmp_path / 'else'}" in printed.err
    assert json.loads(printed.out)["out"] == str(tmp_path / "else")
    monkeypatch.setattr("kilocard.cli.bench.save", lambda run, path: Saved(None, "every disk is full"))
    assert run("bench", "--url", truth.url, *SHORT, "--out", tmp_path / "r.parquet", "--json") == 1
    error = capsys.readouterr().err
    assert error.count(",ok,") == 24, "the table itself, when nothing takes the file"


@pytest.mark.parametrize("place", ["save", "_print_results", "_verdict", "_require_out"])
def test_interrupts_around_the_end_lose_nothing(
    truth: TruthServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    from kilocard.cli import bench

    original = getattr(bench, place)

    def pressed_twice(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments)

    monkeypatch.setattr(bench, place, pressed_twice)
    out = tmp_path / "r.parquet"
    before_the_run = place == "_require_out"
    assert run("bench", "--url", truth.url, *SHORT, "--out", out) == (130 if before_the_run else 0)
    assert out.exists() != before_the_run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "r.parquet"
    code = (
        "import signal; from kilocard import cli; cli.COMMAND_MODULES = ('bench',);"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL); cli.main()"
    )
    with truth_server(Script(ttft_s=0.005, tpot_s=0.002)) as server:
        command = [
            sys.executable,
            "-c",
            code,
            "bench",
            "--url",
            server.url,
            "--concurrency",
            "2",
            "--requests",
            "9999",
            "--output-tokens",
            "5",
            "--out",
            str(out),
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
        while len(server.served()) < 6:
            time.sleep(0.05)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in error.splitlines()[-1]
    assert {Status.OK, Status.CANCELLED} == set(Run.read(out).requests["status"])


def test_a_level_that_makes_more_requests_than_asked_says_so(
    truth: TruthServer, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--concurrency", "1,4", "--requests", "5", "--prompt-tokens", "5", "--output-tokens", "2"]
    said = "4 concurrent: 8 requests, not 5: a level makes twice its concurrency at least"
    assert run("bench", "--url", truth.url, *few) == 0
    assert capsys.readouterr().out.splitlines()[-1] == said
    assert run("bench", "--url", truth.url, *few, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert ([stage["requests"] for stage in printed["stages"]], printed["notes"]) == ([5, 8], [said])
