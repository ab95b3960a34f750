"""Clients that people have, each asking a gateway as its maker meant it to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kilocard.launch import embedded_model
from kilocard.record import Run, Status

NODE = "x-node"
MESSAGES: Any = [{"role": "user", "content": "Say a few words of the sea."}]
PROMPT = "The sea is"
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


@dataclass(frozen=True, slots=True)
class Asked:
    """Where, for which model, how many times and for how many tokens each."""

    url: str
    model: str
    requests: int = 4
    tokens: int = 8


@dataclass(slots=True)
class Told:
    """Answers that the client took for good, those that it did not, and the nodes that it was told of."""

    good: int = 0
    bad: list[str] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)

    def note(self, is_good: object, what: str) -> None:
        """One more answer."""
        if is_good:
            self.good += 1
        else:
            self.bad.append(what)


def openai_client(asked: Asked) -> Told:
    """The list of models, and both kinds of completion, whole and streamed."""
    from openai import OpenAI

    told = Told()
    options: dict[str, Any] = {"model": asked.model, "max_tokens": asked.tokens, "temperature": 0}
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    with OpenAI(base_url=f"{asked.url}/v1", api_key="none", max_retries=0) as client:
        told.note([it.id for it in client.models.list().data] == [asked.model], "the list of models")
        for _ in range(asked.requests):
            raw = client.chat.completions.with_raw_response.create(messages=MESSAGES, **options)
            told.nodes.add(raw.headers.get(NODE, ""))
            whole = raw.parse()
            told.note(whole.choices[0].message.content and whole.usage.completion_tokens, "a chat")
            *chunks, last = client.chat.completions.create(messages=MESSAGES, **options, **usage)
            said = "".join(it.choices[0].delta.content or "" for it in chunks)
            told.note(said and 0 < last.usage.completion_tokens <= asked.tokens, "a streamed chat")
            completion = client.completions.create(prompt=PROMPT, **options)
            told.note(completion.choices[0].text, "a completion")
            pieces = list(client.completions.create(prompt=PROMPT, stream=True, **options))
            told.note(pieces[-1].choices[0].finish_reason, "a streamed completion")
    return told


def curl(asked: Asked) -> Told:
    """A streamed completion, with its headers."""
    told = Told()
    body = {"model": asked.model, "prompt": PROMPT, "max_tokens": asked.tokens, "stream": True}
    kind = "Content-Type: application/json"
    argv = ["curl", "-sSN", "-D", "-", f"{asked.url}/v1/completions", "-H", kind, "-d", json.dumps(body)]
    for _ in range(asked.requests):
        head, _, events = subprocess.check_output(argv, text=True).replace("\r\n", "\n").partition("\n\n")
        told.note(head.startswith("HTTP/1.1 200") and events.endswith("data: [DONE]\n\n"), head[:100])
        told.nodes |= {line.partition(": ")[2] for line in head.split("\n") if line.startswith(NODE)}
    return told


def vllm_bench(asked: Asked) -> Told:
    """Chats of random tokens; it does not look at headers."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "backend": "openai-chat", "endpoint": "/v1/chat/completions", "base-url": asked.url,
            "model": asked.model, "tokenizer": embedded_model(), "dataset-name": "random",
            "random-input-len": 16, "random-output-len": asked.tokens, "num-prompts": asked.requests,
            "result-dir": folder, "result-filename": "told.json",
        }  # fmt: skip
        named = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        if fault := _fault(VLLM_BENCH, *named, "--save-result", "--ignore-eos", "--disable-tqdm"):
            return Told(bad=[fault])
        said = json.loads((Path(folder) / "told.json").read_text(encoding="utf-8"))
    told = Told(said["completed"], ["a failed request"] * said["failed"])
    if said["total_output_tokens"] != asked.requests * asked.tokens:
        told.bad.append(f"{said['total_output_tokens']} tokens in all")
    return told


def kilocard_bench(asked: Asked) -> Told:
    """Two at a time; its run names the node of each request."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.parquet"
        options = {
            "url": asked.url, "concurrency": 2, "requests": asked.requests, "warmup": 0,
            "prompt-tokens": 16, "output-tokens": asked.tokens, "out": out,
        }  # fmt: skip
        named = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        if fault := _fault(KILOCARD, "bench", *named, "--json"):
            return Told(bad=[fault])
        table = Run.read(out).requests
    told = Told(nodes=set(table["node"]))
    for status in table["status"]:
        told.note(status == Status.OK, str(status))
    return told


def _fault(program: str, *arguments: str) -> str:
    """What a command complains of; empty where it ends well."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr[-1000:] or f"exit {done.returncode}" if done.returncode else ""


CLIENTS: dict[str, Callable[[Asked], Told]] = {
    "openai": openai_client,
    "curl": curl,
    "vllm bench": vllm_bench,
    "kilocard bench": kilocard_bench,
}
TELLS_NODE = ("openai", "curl", "kilocard bench")
