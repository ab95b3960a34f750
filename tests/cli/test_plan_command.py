"""`kilocard plan` and `kilocard simulate SCENARIO.yaml` as they are typed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread

import pytest

from kilocard import cli
from kilocard.record import Run

DATA = Path(__file__).parents[2] / "data"
SMALL = """
model: llama-3.1-8b
cards: [{card: h100-sxm, price_per_hour: 2.5}]
traffic: {output_tokens_per_s: 20000}
prompt_tokens: 512
output_tokens: 200
slo: {ttft_p99_s: 0.5, tpot_p99_s: 0.03}
degrees: [1]
site: {nodes: 4, racks: 2, rack_share: 0.7}
"""
SCENARIO = """
cluster:
  name: few
  model: qwen3-8b
  pools: [{name: chat, card: h100-sxm, replicas: 2}]
traffic: {requests: 300, rate_per_s: 20, prompt_tokens: 100, output_tokens: 50}
faults: [{kind: crash, at_s: 5, replica: chat-0}]
"""


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    return int(ended.value.code or 0)


def test_a_plan_is_written_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "t.yaml"
    target.write_text(SMALL)
    assert run("plan", str(target), "--out", str(tmp_path / "p"), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["placement"]["rack"] <= 0.7
    assert told["cost"]["price_per_hour"] == pytest.approx(2.5 * told["cards"])
    assert (tmp_path / "p" / "report.html").is_file()
    assert run("plan", str(target), "--out", str(tmp_path / "p")) == 0
    assert f"{told['cards']} cards (h100-sxm)" in capsys.readouterr().out.replace("\n", " ")
    assert run("lint", str(tmp_path / "p" / "cluster.yaml")) == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "it needs at least model"), ("model: qwen3-8b\n", "cards"), ("{", "cannot read the target")],
)
def test_a_target_that_is_none_is_told(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "t.yaml"
    target.write_text(text)
    assert run("plan", str(target), "--out", str(tmp_path / "p")) != 0
    assert told in capsys.readouterr().err


def test_a_scenario_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "s.yaml"
    place.write_text(SCENARIO)
    assert run("simulate", str(place), "--json", "--seeds", "3", "--out", str(tmp_path / "r.parquet")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["run"]["arrived"] == 300
    assert told["seeds"]["ttft_s.mean"]["n"] == 3
    assert told["seeds"]["ttft_s.mean"]["low"] < told["seeds"]["ttft_s.mean"]["mean"]
    assert [it for it in told["events"] if it["event"] == "crash"]
    assert len(Run.read(tmp_path / "r.parquet").requests) == 300
    assert run("simulate", str(place), "--policy", "round-robin", "--seed", "7") == 0
    assert "errors" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--tp", "2"), "leave out tensor_parallel_size"),
        (("--rate", "2"), "leave out rate_per_s"),
        (("--slo", "ttft_s=1"), "leave out slo"),
        (("--policy", "nobody"), "nobody"),
    ],
)
def test_a_scenario_says_itself_what_it_is(
    flags: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "s.yaml"
    place.write_text(SCENARIO)
    assert run("simulate", str(place), *flags) != 0
    assert told in capsys.readouterr().err


def test_a_case_from_a_pipe_is_read_once_and_a_device_not_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    demand = "{requests: 9, rate_per_s: 9, prompt_tokens: 9, output_tokens: 9}"
    case = f"model: qwen3-8b\ncard: h100-sxm\nworkload: {demand}\n"
    writer = Thread(target=pipe.write_text, args=(case,))
    writer.start()
    assert run("simulate", str(pipe), "--json") == 0
    writer.join(10)
    assert json.loads(capsys.readouterr().out)["run"]["requests"] == 9
    assert run("simulate", "/dev/zero") != 0
