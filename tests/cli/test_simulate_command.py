"""`kilocard simulate` as a user types it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from kilocard import cli
from kilocard.record import Run

FLAGS = ["--model", "qwen3-8b", "--card", "h100-sxm", "--prompt-tokens", "64", "--output-tokens", "8"]
LOAD = ["--rate", "5", "--requests", "100"]
CASE = """
model: qwen3-8b
card: h100-sxm
replicas: 2
engine: {max_num_seqs: 32}
workload: {rate_per_s: 5, requests: 60, prompt_tokens: 64, output_tokens: 8}
slo: {ttft_s: 1}
"""
LOADED = "rate_per_s: 5, requests: 60"
BOMB = "x0: &x0 [1]\n" + "".join(f"x{i}: &x{i} [{f'*x{i - 1},' * 9}]\n" for i in range(1, 30))


@pytest.fixture(autouse=True)
def only_this_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "COMMAND_MODULES", ("facts", "simulate"))


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(["simulate", *arguments])
    return int(stop.value.code or 0)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(*arguments, "--json") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def a_file(folder: Path, text: str) -> str:
    path = folder / "case.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_flags_are_a_case(capsys: pytest.CaptureFixture[str]) -> None:
    slo = ["--slo", "ttft_s=0.5,tpot_s=0.05", "--replicas", "4", "--policy", "round-robin"]
    result = printed(capsys, *FLAGS, *LOAD, *slo)
    assert result["run"]["requests"] == 100
    assert result["run"]["goodput_per_s"] > 0
    assert result["wall_s"] < 1


def test_a_case_file_is_read_and_flags_go_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = a_file(tmp_path, CASE)
    whole = printed(capsys, path)
    assert whole["run"]["requests"] == 60
    assert whole["run"]["goodput_ratio"] == 1
    changed = printed(capsys, path, "--requests", "80", "--replicas", "1", "--max-num-seqs", "64")
    assert changed["run"]["requests"] == 80
    in_a_loop = printed(capsys, path, "--concurrency", "4")
    assert in_a_loop["run"]["requests"] == 60
    assert changed["run"]["utilization"] > whole["run"]["utilization"]


def test_rates_and_concurrencies_are_stages(capsys: pytest.CaptureFixture[str]) -> None:
    for option, levels in (("--rate", "2,4"), ("--concurrency", "1,4,8")):
        result = printed(capsys, *FLAGS, option, levels, "--requests", "50")
        assert [stage["requests"] for stage in result["stages"]] == [50] * len(levels.split(","))


def test_a_run_is_kept_and_can_be_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "run.parquet")
    printed(capsys, *FLAGS, *LOAD, "--out", path)
    assert len(Run.read(path).requests) == 100
    again = printed(capsys, "--model", "qwen3-8b", "--card", "h100-sxm", "--trace", path)
    assert again["run"]["requests"] == 100


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*FLAGS, "--concurrency", "1,4", "--requests", "50") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("simulated: 1 x qwen3-8b on 1 x h100-sxm, 100 requests, in ")
    assert out.splitlines()[0].endswith(" s:")
    for said in ("TTFT", "TPOT", "throughput", "utilization", "stage 1", "median error"):
        assert said in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--model"),
        (["--model", "qwen3-8b"], "--card"),
        (["--model", "qwen3-8b", "--card", "h100-sxm"], "--requests"),
        ([*FLAGS], "give one of"),
        ([*FLAGS, "--rate", "5"], "give one of"),
        ([*FLAGS, *LOAD, "--concurrency", "4"], "not both"),
        ([*FLAGS, *LOAD, "--policy", "least-activ"], "least-active"),
        ([*FLAGS, *LOAD, "--model", "qwen3-9b"], "qwen3"),
        ([*FLAGS, *LOAD, "--card", "h100"], "h100-sxm"),
        ([*FLAGS, *LOAD, "--weights", "int5"], "int5"),
        ([*FLAGS, *LOAD, "--kv", "none"], "none"),
        ([*FLAGS, *LOAD, "--replicas", "0"], "replicas"),
        ([*FLAGS, *LOAD, "--replicas", "100000000"], "100000"),
        ([*FLAGS, *LOAD, "--tp", "-1"], "tensor_parallel_size"),
        ([*FLAGS, *LOAD, "--tp", "7"], "7"),
        ([*FLAGS, *LOAD, "--tp", "1000000000000"], "1000000000000"),
        ([*FLAGS, "--rate", "-5", "--requests", "10"], "rate"),
        ([*FLAGS, "--rate", "nan", "--requests", "10"], "rate"),
        ([*FLAGS, "--rate", "inf", "--requests", "10"], "rate"),
        ([*FLAGS, "--rate", "1e-9", "--requests", "10"], "rate"),
        ([*FLAGS, "--rate", "1e-5", "--requests", "100"], "simulated"),
        ([*FLAGS, "--rate", "5", "--requests", "10000000000"], "requests"),
        ([*FLAGS, "--rate", "five", "--requests", "10"], "1,8,64"),
        ([*FLAGS, "--concurrency", "0", "--requests", "10"], "concurrency"),
        ([*FLAGS, "--concurrency", "4"], "requests"),
        ([*FLAGS, *LOAD, "--prompt-tokens", "0"], "prompt_tokens"),
        ([*FLAGS, *LOAD, "--output-tokens", "100000000"], "output_tokens"),
        ([*FLAGS, *LOAD, "--prompt-tokens", "200000"], "over the context"),
        ([*FLAGS, *LOAD, "--max-num-seqs", "100000"], "max_num_seqs"),
        ([*FLAGS, *LOAD, "--max-num-batched-tokens", "8"], "max_num_seqs"),
        ([*FLAGS, *LOAD, "--arrivals", "weekly"], "arrivals"),
        ([*FLAGS, *LOAD, "--seed", "-1"], "seed"),
        ([*FLAGS, *LOAD, "--slo", "speed=1"], "speed"),
        ([*FLAGS, *LOAD, "--slo", "ttft=0.5,ttft_s=0.1"], "ttft is there twice"),
        ([*FLAGS, *LOAD, "--slo", "ttft=inf"], "finite"),
        ([*FLAGS, *LOAD, "--facts", "/no/such.yaml"], "--facts: nothing at /no/such.yaml"),
        ([*FLAGS, *LOAD, "--calibration", "/no/such/file.yaml"], "/no/such/file.yaml"),
        ([*FLAGS, "--trace", "x.csv"], "leave out output_tokens, prompt_tokens"),
        (["--model", "qwen3-8b", "--card", "h100-sxm", "--trace", "/no/such.csv"], "No such file"),
        (["--model", "llama-3.1-70b", "--card", "l4", "--rate", "1", "--requests", "5",
          "--prompt-tokens", "5", "--output-tokens", "5"], "tensor_parallel_size"),
        (["/no/such/case.yaml"], "No such file"),
        (["/"], "directory"),
        (["/dev/zero"], "case"),
    ],
)  # fmt: skip
def test_bad_flags_are_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in complaint(capsys, *arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "model, card and workload"),
        ("- 1\n- 2\n", "model, card and workload"),
        ("model: [", "cannot read"),
        ("[" * 20_000, "cannot read"),
        ("a: " + "x" * 3_000_000, "longer than"),
        ("model: \x07", "cannot read"),
        ("model: !!python/object/apply:os.system ['true']", "cannot read"),
        (CASE + "colour: red\n", "colour"),
        (CASE.replace("qwen3-8b", "{}"), "model"),
        (CASE.replace("max_num_seqs", "max_seqs"), "max_seqs"),
        (CASE.replace("rate_per_s: 5", "rate_per_s: .inf"), "rate_per_s"),
        (CASE.replace("requests: 60", "requests: 1.5"), "requests"),
        (CASE.replace("requests: 60", "requests: 60, turns: {count: 0}"), "turns"),
        (CASE.replace("requests: 60", "requests: 60, turns: {count: 2, think_s: .inf}"), "think_s"),
        (CASE.replace("requests: 60", "requests: 60, turns: 2, distinct_prompts: 4"), "leave one out"),
        (CASE.replace("requests: 60", "requests: 60, priority: {}"), "priority"),
        (CASE.replace("requests: 60", "requests: 60, priority: {high: 1}"), "priority"),
        (CASE.replace("requests: 60", "requests: 60, system_prompts: {tokens: 64}"), "no room"),
        (CASE.replace("prompt_tokens: 64", "prompt_tokens: {kind: normal}"), "prompt_tokens"),
        (CASE.replace("prompt_tokens: 64", "prompt_tokens: {kind: lognormal}"), "mean_tokens"),
        (CASE.replace(LOADED, "stages: []"), "stages"),
        (CASE.replace(LOADED, "stages: [{rate_per_s: 1}]"), "a stage is"),
        (
            CASE.replace(LOADED, "stages: [{rate_per_s: 1, requests: 5}, {concurrency: 1, requests: 5}]"),
            "do not mix",
        ),
        (
            CASE.replace("rate_per_s: 5, requests: 60", "stages: [{rate_per_s: 1, duration_s: 1e-3}]"),
            "longer",
        ),
        (CASE.replace("{max_num_seqs: 32}", "{kv_blocks: 2}"), "never fits"),
        (
            CASE + "x0: &x0 [1]\n" + "".join(f"x{i}: &x{i} [{f'*x{i - 1},' * 9}]\n" for i in range(1, 30)),
            "x0",
        ),
    ],
)
def test_bad_cases_are_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = complaint(capsys, a_file(tmp_path, text))
    assert said in told
    assert len(told) < 1500


def test_ctrl_c_ends_it_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    try:
        assert run(*FLAGS, "--replicas", "1000", "--rate", "10000", "--requests", "3000000") == 130
    finally:
        signal.signal(signal.SIGALRM, before)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
