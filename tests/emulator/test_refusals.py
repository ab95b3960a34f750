"""What is refused, how it is worded, and what HTTP itself asks for."""

import asyncio
import json
import socket
from typing import Any

import pytest
from emulator_client import MAX_MODEL_LEN, MODEL, ask, run_with

from kilocard.emulator import Emulated, Emulator
from kilocard.emulator.connection import BODY_LIMIT, HEADER_LIMIT

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TEXT = COMPLETIONS
USAGE = {"include_usage": True}
ENGINE, HTTP = "BadRequestError", "Bad Request"
"""How an error is called where the engine refuses, and where the request never came to it."""


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "param", "says"),
    [
        (TEXT, {"model": "other", "prompt": "a"}, 404, "NotFoundError", "model", "does not exist"),
        (TEXT, {"prompt": [7] * (MAX_MODEL_LEN + 9)}, 400, ENGINE, "input_tokens", "maximum"),
        (TEXT, {"prompt": [7] * MAX_MODEL_LEN}, 400, ENGINE, "max_tokens", "(parameter=max_tokens, value=0)"),
        (TEXT, {"prompt": ""}, 400, ENGINE, "prompt", "non-empty"),
        (TEXT, {"prompt": [""]}, 400, ENGINE, None, "cannot be empty"),
        (TEXT, {"prompt": [[]]}, 400, ENGINE, None, "cannot be empty"),
        (TEXT, {"prompt": []}, 400, ENGINE, None, "at least one prompt"),
        (TEXT, {}, 400, ENGINE, "prompt", "non-empty"),
        (TEXT, {"prompt": 3}, 400, HTTP, "body.prompt", "validation error"),
        (TEXT, {"prompt": "a", "max_tokens": "many"}, 400, HTTP, "body.max_tokens", "integer"),
        (TEXT, {"prompt": "a", "max_tokens": 0}, 400, ENGINE, "max_tokens", "got 0"),
        (TEXT, {"prompt": "a", "max_tokens": 9999}, 400, ENGINE, "max_tokens", "cannot be greater than"),
        (TEXT, {"prompt": "a", "n": 2}, 400, ENGINE, "n", "n=1"),
        (TEXT, {"prompt": ["a", "b"]}, 400, ENGINE, "prompt", "one prompt"),
        (TEXT, {"prompt": "a", "stop": [""]}, 400, ENGINE, None, "empty string"),
        (TEXT, {"prompt": "a", "temperature": -1}, 400, ENGINE, "temperature", "non-negative"),
        (TEXT, {"prompt": "a", "top_p": 0}, 400, ENGINE, "top_p", "(0, 1]"),
        (TEXT, {"prompt": "a", "stream_options": USAGE}, 400, ENGINE, "stream_options", "stream=True"),
        (TEXT, {"prompt": [-1]}, 400, HTTP, "body.prompt", "validation error"),
        (TEXT, b"{nonsense", 400, HTTP, "body", "json_invalid"),
        (TEXT, b"[" * 100_000, 400, HTTP, "body", "json_invalid"),
        (TEXT, b"\xff\xfe", 400, HTTP, "body", "json_invalid"),
        (TEXT, b'{"prompt": "\\ud800"}', 400, HTTP, "body", "json_invalid"),
        (TEXT, b"[]", 400, HTTP, "body", "validation error"),
        (CHAT, {"model": MODEL}, 400, HTTP, "body.messages", "required"),
        (CHAT, {"messages": []}, 400, ENGINE, None, "empty conversation"),
        (CHAT, {"messages": [{"content": "a"}]}, 400, HTTP, "body.messages.0.role", "required"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            400, ENGINE, None, "not a multimodal model",
        ),
    ],
)  # fmt: skip
def test_what_vllm_refuses_is_refused(
    engines: Emulated, path: str, body: Any, status: int, kind: str, param: str | None, says: str
) -> None:
    answer = ask(engines.url, path, body)
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (status, status)
    assert (error["type"], error["param"]) == (kind, param)
    assert says in error["message"]
    assert answer.headers["x-kilocard-engine"] == "emulated"


@pytest.mark.parametrize("text", ["a\x00b", "🜚" * 50])
def test_odd_text_is_answered(engines: Emulated, text: str) -> None:
    assert ask(engines.url, COMPLETIONS, {"prompt": text, "stop": text}).status == 200
    assert (
        ask(engines.url, CHAT, {"messages": [{"role": text, "content": text}], "max_tokens": 1}).status == 200
    )


def test_a_path_that_is_not_there_is_said_as_the_framework_says_it(engines: Emulated) -> None:
    answer = ask(engines.url, "/v1/nothing", {})
    assert (answer.status, answer.json) == (404, {"detail": "Not Found"})


def test_the_other_paths_answer(engines: Emulated) -> None:
    models = ask(engines.url, "/v1/models").json["data"]
    assert [(model["id"], model["max_model_len"]) for model in models] == [(MODEL, MAX_MODEL_LEN)]
    assert models[0]["owned_by"] == "kilocard-emulator"
    assert (ask(engines.url, "/health").status, ask(engines.url, "/health").content) == (200, b"")
    assert ask(engines.url, "/ping", b"").status == ask(engines.url, "/ping").status == 200
    assert ask(engines.url, "/version?a=b").json["version"].endswith(" at 20 x speed")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        *((whole, 200) for whole in ("http://x/version", "http://x/version?a=b", "/%76ersion")),
        *((other, 404) for other in ("http://x", "//x/version", "*")),
    ],
)
def test_a_target_can_be_a_whole_url(engines: Emulated, target: str, status: int) -> None:
    asked = f"GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode("latin-1")
    assert exchange(engines.url, asked).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", COMPLETIONS), ("POST", "/v1/models"), ("HEAD", "/health")]
)
def test_another_method_is_not_allowed(engines: Emulated, method: str, path: str) -> None:
    answer = ask(engines.url, path, method=method)
    assert answer.status == 405
    assert answer.content in (b"", b'{"detail": "Method Not Allowed"}')
    assert "allow" in answer.headers
    assert bool(answer.content) != (method == "HEAD")


def test_a_requests_id_is_kept(engines: Emulated) -> None:
    for path, body in (
        (COMPLETIONS, {"prompt": "a"}),
        (CHAT, {"messages": [{"role": "user", "content": "a"}]}),
    ):
        number = ask(engines.url, path, {**body, "max_tokens": 1}, **{"X-Request-Id": 'mine "1"'}).json["id"]
        assert number.partition("-")[2] == 'mine "1"'


def test_only_json_is_taken(engines: Emulated) -> None:
    body = json.dumps({"prompt": "a"}).encode()
    assert ask(engines.url, COMPLETIONS, body, **{"Content-Type": "text/plain"}).status == 400
    assert (
        ask(engines.url, COMPLETIONS, body, **{"Content-Type": "application/json; charset=utf-8"}).status
        == 200
    )


def exchange(url: str, *contents: bytes) -> bytes:
    """Send bytes, each piece after an answer to the one before, and read until the server closes."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        answer = b""
        for content in contents:
            connection.sendall(content)
            answer += connection.recv(65_536)
        while part := connection.recv(65_536):
            answer += part
        return answer


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nx: " + b"a" * (HEADER_LIMIT + 10) + b"\r\n\r\n", 431),
        (b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % 67_108_864 + b"a" * (BODY_LIMIT + 9), 413),
    ],
    ids=["nonsense", "head", "body"],
)  # fmt: skip
def test_what_is_no_request_or_too_long_ends_the_connection(
    engines: Emulated, content: bytes, status: int
) -> None:
    assert exchange(engines.url, content).startswith(b"HTTP/1.1 %d " % status)
    assert ask(engines.url, "/health").status == 200


def test_requests_in_a_row_on_one_connection_are_answered_in_order(engines: Emulated) -> None:
    body = b'{"prompt":"a","max_tokens":2}'
    head = b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    post = head + b"content-length: %d\r\n\r\n" % len(body) + body
    last = b"GET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    answer = exchange(engines.url, post * 3 + b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n" + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 5
    assert answer.count(b"text_completion") == 3
    assert answer.rindex(b"connection: close") > answer.rindex(b"text_completion")


def test_an_upgrade_is_passed_over(engines: Emulated) -> None:
    asked = b"GET /health HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    last = b"GET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    assert exchange(engines.url, asked, last).count(b"HTTP/1.1 200 OK") == 2


ASKED = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n"
BEGUN = b"POST /v1/completions HTTP/1.1\r\ncontent-length: 100\r\n\r\n0123456789"


@pytest.mark.parametrize(
    ("patience", "content"),
    [("KEEP_ALIVE_S", ASKED), ("KEEP_ALIVE_S", b"nonsense\r\n\r\n"), ("SILENT_S", BEGUN), ("SILENT_S", b"")],
    ids=["answered", "refused", "half a request", "nothing yet"],
)
def test_a_silent_connection_is_closed(
    patience: str, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"kilocard.emulator.emulator.{patience}", 0.1)
    monkeypatch.setattr("kilocard.emulator.emulator.LOOK_S", 0.02)

    async def wait(emulator: Emulator) -> bytes:
        return await asyncio.to_thread(read_to_the_end, emulator.urls[0], content)

    assert run_with(wait).startswith(b"HTTP/1.1 " if patience == "KEEP_ALIVE_S" else b"")


def read_to_the_end(url: str, content: bytes) -> bytes:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(content)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize("before", [b"", ASKED], ids=["first", "next"])
def test_the_rest_of_a_request_is_waited_for(before: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than for the next request of a connection that was answered."""
    monkeypatch.setattr("kilocard.emulator.emulator.KEEP_ALIVE_S", 0)
    monkeypatch.setattr("kilocard.emulator.emulator.LOOK_S", 0.005)
    rest = b"{}".ljust(90)

    async def wait(emulator: Emulator) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(emulator.urls[0].rpartition(":")[2]))
        writer.write(before + BEGUN)
        await asyncio.sleep(0.05)
        writer.write(rest)
        return await reader.read()

    assert run_with(wait).count(b"HTTP/1.1 ") == 1 + bool(before)
