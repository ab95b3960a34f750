"""`kilocard emulate`: starts, is understood by `kilocard bench`, ends clean, and names what cannot be."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kilocard import cli
from kilocard.record import Kind, Run

KILOCARD = [sys.executable, "-c", "from kilocard.cli import main; main()"]
EMULATE = ["emulate", "--model", "qwen3-8b", "--card", "h100-sxm", "--port", "0"]


@contextmanager
def running(*options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*KILOCARD, *EMULATE, *options], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def told(process: subprocess.Popen[str]) -> dict[str, object]:
    """The JSON object that it prints when it is ready."""
    assert process.stdout
    text = ""
    while not text.endswith("}\n"):
        line = process.stdout.readline()
        assert line
        text += line
    about = json.loads(text)
    assert isinstance(about, dict)
    return about


def port_of(url: object) -> int:
    return int(str(url).rpartition(":")[2])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_eight_engines_are_benched_as_emulated_and_end_on_sigterm(tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    with running("--replicas", "8", "--json", "--speed", "10", "--max-model-len", "2048") as process:
        about = told(process)
        urls = about["urls"]
        assert isinstance(urls, list)
        assert len(set(urls)) == 8
        assert (about["kind"], about["max_model_len"], about["speed"]) == ("emulated", 2048, 10)
        asked = ["bench", "--url", urls[7], "--concurrency", "1,4", "--output-tokens", "16"]
        shown = subprocess.run(
            [*KILOCARD, *asked, "--out", str(out)], check=True, capture_output=True, text=True
        )
        assert "emulated" in shown.stdout
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert not any(is_open(port_of(url)) for url in urls)
    run = Run.read(out)
    assert run.stamp.kind is Kind.EMULATED
    assert (run.stamp.card, run.stamp.model, run.stamp.engine) == (
        "h100-sxm",
        "qwen3-8b",
        "kilocard-emulator",
    )
    assert run.stamp.engine_version.endswith(" at 10 x speed")
    assert len(run.ok) == len(run.requests)
    assert set(run.ok["output_tokens"]) == {16}


def test_a_stream_that_runs_ends_with_an_error_event_when_the_engine_stops() -> None:
    with running("--json") as process:
        port = port_of(told(process)["urls"][0])  # type: ignore[index]
        body = b'{"prompt":"a","max_tokens":30000,"stream":true}'
        head = b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
            line.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            answer = line.recv(100)
            process.send_signal(signal.SIGINT)
            while part := line.recv(65_536):
                answer += part
        assert process.wait(10) == 0
    assert answer.count(b'"error"') == 1
    assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--replicas", "0"], "replicas"),
        (["--model", "qwen9"], "qwen9"),
        (["--card", "h1000"], "h1000"),
        (["--port", "70000"], "--port"),
        (["--port", "65530", "--replicas", "9"], "--port"),
        (["--speed", "0"], "speed"),
        (["--kv-blocks", "4", "--max-model-len", "100"], "max_model_len 100"),
        (["--max-model-len", "200000"], "max_model_len 200000 is over the context of qwen3-8b, 40960 tokens"),
        (["--kv-blocks", "99999999"], "kv_blocks 99999999 are 235,929.6 GB on a h100-sxm of 80 GB"),
        (["--kv-blocks", "99999999999999999999"], "kv_blocks"),
        (["--served-model-name="], "served_model_name '' is no name"),
        (["--model", "qwen3.5-27b", "--kv-blocks", "5"], "5 KV blocks hold not even the state of one"),
        (["--max-num-seqs", "4096"], "max_num_seqs"),
        (["--fault", "slower"], "--fault"),
        (["--calibration", "nowhere.yaml"], "nowhere.yaml"),
        (["--tp", "3"], "3"),
        (["--model", "llama-3.1-70b"], "no KV cache"),
    ],
)
def test_what_cannot_be_emulated_is_one_line_and_exit_2(
    options: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refusal(monkeypatch, capsys, *options)


def test_a_port_that_is_taken_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        line = refusal(monkeypatch, capsys, "--port", port)
    way_out = "free it, or name another --port"
    assert line == f"kilocard: no engine can listen on port {port} (it is taken): {way_out}\n"


def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The one line that the command says, with exit code 2."""
    monkeypatch.setattr(cli, "COMMAND_MODULES", ("emulate", "facts"))
    with pytest.raises(SystemExit) as stop:
        cli.main([*EMULATE, *options])
    printed = capsys.readouterr()
    assert (stop.value.code, printed.out) == (2, "")
    assert printed.err.count("\n") == 1
    return printed.err
