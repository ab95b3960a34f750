"""A real vLLM behind the gateway, and the clients that people have: all work as they are, and can tell the
node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilocard.gateway.process import AtWork, gateway_over
from kilocard.launch import Engine, embedded_model
from kilocard.record import Run, Status

pytestmark = pytest.mark.engine

NODE = "node-7"
REQUESTS, TOKENS = 4, 8
KILOCARD = "from kilocard.cli import main; main()"
VLLM_BENCH = """
import sys
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args(sys.argv[1:]))
"""
"""`vllm bench serve`, past a command that looks for a package called vllm: the CPU build has another name."""


@pytest.fixture(scope="module")
def gateway(book_engine: Engine) -> Iterator[AtWork]:
    pool = {"name": "chat", "cap": 8, "replicas": [{"url": book_engine.url, "node": NODE, "version": "v1"}]}
    with gateway_over({"name": "real", "model": book_engine.model, "pools": [pool]}) as running:
        yield running
        assert [row["in_flight"] for row in running.replicas()] == [0]


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_openai(gateway: AtWork, book_engine: Engine) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client:
        (model,) = client.models.list().data
        assert model.id == book_engine.model
        asked: dict[str, Any] = {"model": model.id, "max_tokens": TOKENS, "temperature": 0}
        messages: Any = [{"role": "user", "content": "Say a few words of the sea."}]

        raw = client.chat.completions.with_raw_response.create(messages=messages, **asked)
        assert (raw.headers["x-node"], raw.headers["x-model-version"]) == (NODE, "v1")
        whole = raw.parse()
        assert whole.choices[0].message.content and 0 < whole.usage.completion_tokens <= TOKENS

        usage = {"stream": True, "stream_options": {"include_usage": True}}
        *chunks, last = client.chat.completions.create(messages=messages, **asked, **usage)
        assert "".join(it.choices[0].delta.content or "" for it in chunks)
        assert 0 < last.usage.completion_tokens <= TOKENS

        said = client.completions.create(prompt="The sea is", **asked)
        assert said.choices[0].text and said.choices[0].finish_reason
        pieces = list(client.completions.create(prompt="The sea is", stream=True, **asked))
        assert "".join(it.choices[0].text for it in pieces) and pieces[-1].choices[0].finish_reason


def test_curl(gateway: AtWork, book_engine: Engine) -> None:
    body = {"model": book_engine.model, "prompt": "The sea is", "max_tokens": TOKENS, "stream": True}
    kind = "Content-Type: application/json"
    asked = ["curl", "-sSN", "-D", "-", f"{gateway.url}/v1/completions", "-H", kind, "-d", json.dumps(body)]
    head, _, events = subprocess.check_output(asked, text=True).replace("\r\n", "\n").partition("\n\n")
    assert head.startswith("HTTP/1.1 200")
    assert f"x-node: {NODE}" in head
    assert events.endswith("data: [DONE]\n\n")


def test_vllm_bench(gateway: AtWork, book_engine: Engine, tmp_path: Path) -> None:
    options = {
        "backend": "openai-chat", "endpoint": "/v1/chat/completions", "base-url": gateway.url,
        "model": book_engine.model, "tokenizer": embedded_model(), "dataset-name": "random",
        "random-input-len": 16, "random-output-len": TOKENS, "num-prompts": REQUESTS,
        "result-dir": tmp_path, "result-filename": "told.json",
    }  # fmt: skip
    named = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    run(VLLM_BENCH, *named, "--save-result", "--ignore-eos", "--disable-tqdm")
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["completed"], told["failed"]) == (REQUESTS, 0)
    assert told["total_output_tokens"] == REQUESTS * TOKENS


def test_kilocard_bench(gateway: AtWork, tmp_path: Path) -> None:
    counts = ["--concurrency", "2", "--requests", str(REQUESTS), "--prompt-tokens", "16"]
    out = ["--output-tokens", str(TOKENS), "--out", str(tmp_path / "run.parquet"), "--json"]
    run(KILOCARD, "bench", "--url", gateway.url, *counts, *out)
    table = Run.read(tmp_path / "run.parquet").requests
    assert len(table) == REQUESTS
    assert set(table["status"]) == {Status.OK}
    assert set(table["node"]) == {NODE}
    assert set(table["replica"]) == {row["id"] for row in gateway.replicas()}
