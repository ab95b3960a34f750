"""`kilocard layout`: its JSON, its text, and one line for bad input."""

import json

import pytest

from kilocard.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["layout", *arguments])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_the_json_names_the_layout_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--model", "llama-3.1-70b", "--card", "h100-sxm", "--weights", "fp8", "--json")
    code, out, _ = run(capsys, *asked)
    told = json.loads(out)
    assert code == 0
    assert (told["tensor_parallel_size"], told["data_parallel_size"], told["fits"]) == (2, 4, True)
    assert "one card does not hold it" in told["reason"]
    assert told["flags"] == ["--tensor-parallel-size", "2"]
    rejected = {(row["tensor_parallel_size"], row["pipeline_parallel_size"]): row for row in told["rejected"]}
    assert not rejected[1, 1]["fits"] and "72.7 GB of weights" in rejected[1, 1]["reason"]
    assert rejected[4, 1]["fits"] and "more cards than it takes" in rejected[4, 1]["reason"]
    assert "spans 2 machines" in rejected[16, 1]["reason"]
    assert told["kind"] == "derived" and told["calibration_source"]
    assert 0 < told["output_tokens_per_s_per_card"] < told["output_tokens_per_s"]


def test_the_text_says_what_to_start_and_what_it_gives(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--model", "llama-3.1-8b", "--card", "h100-sxm")
    assert code == 0
    assert "TP 1 × DP 8: 8 cards" in out and "--tensor-parallel-size 1" in out and "not TP 2" in out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--tp", "6"), "--tp 6: does not divide the 64 attention heads"),
        (("--tp", "0"), "whole numbers from 1"),
        (("--pp", "200"), "200 stages of 80 layers"),
        (("--network", "carrier-pigeon"), "carrier-pigeon"),
        (("--cards-per-node", "0"), "--cards-per-node 0"),
        (("--prompt-tokens", "0"), "prompt_tokens 0"),
        (("--concurrency", "0"), "concurrency 0"),
        (("--tpot-ms", "-1"), "--tpot-ms -1"),
        (("--cards", "0"), "0 cards"),
        (("--weights", "fp3"), "fp3"),
        (("--calibration", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_bad_input_ends_in_one_line(
    capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, "--model", "llama-3.1-70b", "--card", "h100-sxm", *more)
    assert code == 2 and not out
    assert said in err and len(err.splitlines()) == 1
