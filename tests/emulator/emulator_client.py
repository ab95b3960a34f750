"""What tests of the emulator ask, and how: a small case, one request, an emulator in the test's own loop."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any, NamedTuple, TypeVar

import uvloop

from kilocard.emulator import Emulator
from kilocard.specs import Case, case_from

T = TypeVar("T")
NO_LOAD = {"requests": 1, "rate_per_s": 1, "prompt_tokens": 1, "output_tokens": 1}
MODEL = "qwen3-8b"
MAX_MODEL_LEN = 512


def case_of(replicas: int = 1, **engine: Any) -> Case:
    """A small case."""
    settings = {"max_model_len": MAX_MODEL_LEN, **engine}
    asked = {"model": MODEL, "card": "h100-sxm", "replicas": replicas, "engine": settings}
    return case_from({**asked, "workload": NO_LOAD})


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def events(self) -> list[Any]:
        """The events of a stream, the last as it is."""
        parts = [part.removeprefix("data: ") for part in self.content.decode().split("\n\n") if part]
        assert parts[-1] == "[DONE]"
        return [json.loads(part) for part in parts[:-1]]


def ask(url: str, path: str, body: Any = None, method: str = "", **headers: str) -> Answer:
    """One request; a dict is sent as JSON, bytes as they are."""
    with closing(HTTPConnection(url.removeprefix("http://"), timeout=20)) as connection:
        content = json.dumps(body) if isinstance(body, dict) else body
        named = {"Content-Type": "application/json", **headers} if content is not None else headers
        connection.request(method or ("GET" if content is None else "POST"), path, content, named)
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())


def run_with(test: Callable[[Emulator], Awaitable[T]], case: Case | None = None, **options: Any) -> T:
    """Run a coroutine beside an emulator in the same loop."""

    async def run() -> T:
        async with Emulator(case or case_of(), **options) as emulator:
            return await asyncio.wait_for(test(emulator), 30)

    return uvloop.run(run())
