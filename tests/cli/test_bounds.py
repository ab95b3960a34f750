"""`kilocard facts`, `ledger` and `roofline` as a user types them."""

import json
from pathlib import Path

import pytest

from kilocard import cli
from kilocard.cli.output import print_json
from kilocard.facts.registry import FACTS_VARIABLE

LEDGER = ["ledger", "--model", "qwen3-8b", "--card", "h100-sxm", "--context", "4096", "--concurrency", "32"]
ROOFLINE = ["roofline", "--model", "qwen3-8b", "--card", "h100-sxm", "--batch", "32", "--context", "4096"]


@pytest.fixture(autouse=True)
def only_these_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "COMMAND_MODULES", ("facts", "bounds"))
    monkeypatch.setenv(FACTS_VARIABLE, "")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    return int(stop.value.code or 0)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run(*arguments, "--json") == 0
    content: dict[str, object] = json.loads(capsys.readouterr().out)
    return content


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_ledger_prints_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    result = printed(capsys, *LEDGER, "--weights", "bf16", "--kv", "bf16", "--tp", "2")
    promised = {"weights_bytes", "kv_bytes_per_token", "kv_bytes_per_token_per_rank", "kv_bytes"}
    promised |= {"state_bytes_per_sequence", "total_bytes", "fits", "max_kv_tokens"}
    assert promised <= set(result)
    assert result["kv_bytes_per_token"] == 147_456
    assert result["kv_bytes_per_token_per_rank"] == 73_728
    assert result["kv"] == "bf16"


def test_roofline_prints_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    result = printed(capsys, *ROOFLINE)
    assert {"decode_step_s", "decode_tokens_per_s", "prefill_s", "limited_by", "collective_s"} <= set(result)
    assert result["limited_by"] == "memory_bandwidth"


def test_facts_print_whole_rows_with_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    everything = printed(capsys, "facts")
    assert set(everything) == {"cards", "models", "links"}
    card = printed(capsys, "facts", "k100-ai")
    assert card["source"] and "memory_bandwidth_gb_per_s" in card["unverified"]  # type: ignore[operator]
    assert printed(capsys, "facts", "qwen3-8b")["valid_tensor_parallel"] == [1, 2, 4, 8, 16, 32]
    assert set(printed(capsys, "facts", "links")) == {"links"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (LEDGER, "fits in 72.00 GB"),
        ([*LEDGER, "--card", "rtx-4090"], "does not fit in 21.60 GB"),
        (ROOFLINE, "limited by memory bandwidth"),
        ([*ROOFLINE, "--tp", "2"], "a step more"),
        ([*ROOFLINE, "--card", "k100-ai"], "unverified: k100-ai.memory_bandwidth_gb_per_s"),
        (["facts"], "qwen3-30b-a3b"),
        (["facts", "cards"], "nvlink4"),
        (["facts", "h100-sxm"], "NVIDIA H100 Tensor Core GPU datasheet"),
    ],
)
def test_a_person_reads_a_table(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 0
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*LEDGER, "--card", "h100"], "unknown card 'h100': did you mean 'h100-sxm'?"),
        ([*LEDGER, "--context", "-1"], "--context -1: give a whole number of tokens"),
        (
            [*LEDGER, "--tp", "3"],
            "--tp 3: does not divide the 32 attention heads; valid for qwen3-8b: 1, 2, 4",
        ),
        ([*LEDGER, "--model", "/no/config.json"], "no model at /no/config.json"),
        ([*LEDGER, "--facts", "/no/rows"], "nothing at /no/rows"),
        ([*ROOFLINE, "--card", "ascend-910b"], "memory_bandwidth_gb_per_s of ascend-910b is unknown"),
        ([*ROOFLINE, "--batch", "0"], "--batch 0"),
        (["facts", "h100-sx"], "no fact named 'h100-sx': did you mean 'h100-sxm'?"),
    ],
)
def test_bad_input_exits_2_with_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in complaint(capsys, *arguments)


def test_a_reader_s_row_file_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.yaml"
    rows.write_text(
        "cards:\n  ascend-910b: {name: mine, memory_gb: 64, memory_bandwidth_gb_per_s: 1600,"
        " bf16_tflops: 280, fp8_tflops: 0, int8_tops: 560, link: hccs,"
        " source: {citation: measured here, date: '2026', kind: measured}}"
    )
    result = printed(capsys, *ROOFLINE, "--card", "ascend-910b", "--facts", str(rows))
    assert result["memory_bandwidth_bytes_per_s"] == 1.6e12


def test_a_name_is_printed_as_it_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.yaml"
    name = "[/red] [bold]big[/bold] :smile: "
    rows.write_text(
        f"links:\n  '[wire]': {{name: \"{name}\\e[31m\", one_way_gb_per_s: 1, both_ways_gb_per_s: 2,"
        " notes: '[/nosuch]', source: {citation: '[x]', date: '2026', kind: measured}}"
    )
    for what in ("links", "[WIRE]"):
        assert run("facts", what, "--facts", str(rows)) == 0
        said = capsys.readouterr().out
        assert f"{name}\\x1b[31m" in said
        assert "[wire]" in said
    assert "[/nosuch]" in said


def test_json_has_null_where_a_number_is_infinite(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("inf"), "b": [float("nan"), {"c": (1.5, -float("inf"))}], "d": True})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, {"c": [1.5, None]}], "d": True}
