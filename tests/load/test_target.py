"""The bytes that a request is, and who is asked for its identity."""

import base64
import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.load.identity import identify, is_local
from kilocard.load.target import Target
from kilocard.load.truth_process import TruthServer
from kilocard.workload import FIRST_TOKEN_ID, Request


def split(payload: bytes) -> tuple[str, dict[str, object]]:
    head, _, content = payload.partition(b"\r\n\r\n")
    return head.decode(), json.loads(content)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(FIRST_TOKEN_ID + 1, 200_000))
def test_a_completion_has_exactly_the_tokens_asked_for(prompt: int, output: int, vocabulary: int) -> None:
    target = Target("http://localhost:8000", "m", vocabulary=vocabulary)
    head, body = split(target.encode(Request("id-1", prompt, output)))
    ids = body["prompt"]
    assert isinstance(ids, list)
    assert len(ids) == prompt
    assert all(FIRST_TOKEN_ID <= token < vocabulary for token in ids)
    assert (body["max_tokens"], body["ignore_eos"], body["stream"]) == (output, True, True)
    assert body["stream_options"] == {"include_usage": True}
    assert "X-Request-Id: id-1" in head


def test_a_priority_stands_in_the_head_and_without_one_nothing_does() -> None:
    target = Target("http://localhost:8000", "m")
    head, body = split(target.encode(Request("r", 1, 1, priority="batch")))
    assert "X-Priority: batch" in head.splitlines()
    assert "priority" not in body
    assert "x-priority" not in split(target.encode(Request("r", 1, 1)))[0].lower()


@pytest.mark.parametrize(
    ("url", "path", "host"),
    [
        ("http://a:1", "/v1/completions", "a:1"),
        ("http://a:1/v1", "/v1/completions", "a:1"),
        ("http://a/base/", "/base/v1/completions", "a:80"),
        ("https://a/base/v1/", "/base/v1/completions", "a:443"),
        ("http://[::1]:9", "/v1/completions", "[::1]:9"),
    ],
)
def test_a_url_may_carry_a_path(url: str, path: str, host: str) -> None:
    head, _ = split(Target(url, "m").encode(Request("r", 1, 1)))
    assert head.splitlines()[0] == f"POST {path} HTTP/1.1"
    assert f"Host: {host}" in head.splitlines()


def test_a_key_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KILOCARD_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "Authorization" not in Target("http://a:1", "m").headers
    monkeypatch.setenv("OPENAI_API_KEY", "k1")
    assert Target("http://a:1", "m").headers["Authorization"] == "Bearer k1"


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "a",
            "ftp://a",
            "ftp://a:1",
            "http://",
            "http://a:99999",
            "http://a:b",
            "http://a:0",
            "http://[::1",
        ),
        *("http://a b:1", "http://a:1/x y", "http://a:1/\n", "http://a:1\r\nX: y", "http://ä:1", "a:1\x00"),
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(KilocardError, match="127"):
        Target(url, "m")


@pytest.mark.parametrize(("url", "means"), [("a:1", "http://a:1"), ("[::1]:9/v1", "http://[::1]:9/v1")])
def test_a_host_and_a_port_alone_mean_http(url: str, means: str) -> None:
    assert Target(url, "m").url == means


def test_a_password_becomes_a_header_and_is_shown_nowhere() -> None:
    target = replace(Target("http://me:se%40cret@a:1/v1", ""), model="m")
    told = base64.b64decode(target.headers["Authorization"].removeprefix("Basic ")).decode()
    assert (told, target.url, target.host) == ("me:se@cret", "http://a:1/v1", "a")
    assert "cret" not in repr(target)
    assert Target("http://me:secret@a:1", "m", api_key="k").headers["Authorization"] == "Bearer k"
    for url in ("http://me:se/cret@a:1", "http://me:secret@a:99999", "me:secret@a:b", "ftp://me:secret@a"):
        with pytest.raises(KilocardError) as refusal:
            Target(url, "m")
        assert "cret" not in str(refusal.value)
        assert "…@a" in str(refusal.value)


@pytest.mark.parametrize("key", ["k\n", "k\r\nX-Other: 1", "clé", "k\x00"])
def test_a_key_that_no_header_takes_is_refused_and_not_shown(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KilocardError, match="no HTTP header takes") as refusal:
        Target("http://a:1", "m", api_key=key)
    assert key not in str(refusal.value)


def test_unknown_endpoints_and_tiny_vocabularies_are_refused() -> None:
    with pytest.raises(KilocardError, match="completions or chat"):
        Target("http://a:1", "m", "embeddings")  # type: ignore[arg-type]
    for vocabulary in (10, 2**40):
        with pytest.raises(KilocardError, match="vocabulary"):
            Target("http://a:1", "m", vocabulary=vocabulary)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1", True),
        ("http://127.0.0.2:1", True),
        ("http://[::1]:1", True),
        ("http://10.0.0.1:1", False),
        ("http://example.org", False),
    ],
)
def test_loopback_is_this_box(url: str, local: bool) -> None:
    assert is_local(Target(url, "m")) is local


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers every GET with what the path's first part names."""

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        status, body = {
            "html": (200, b"<html></html>"),
            "list": (200, b"[]"),
            "missing": (404, b"{}"),
            "locked": (401, b"{}"),
            "deep": (200, b"[" * 200_000),
            "odd": (200, b'{"data":[{"id":"a","owned_by":"\\ud800","max_model_len":NaN},{"id":"\\ud800"}]}'),
            "two": (200, b'{"data":[{"id":"a"},{"id":"b"},{"no":1},7]}'),
            "vllm": (200, b'{"version":"9.9","data":[{"id":"a","owned_by":"vllm"}]}'),
        }[kind]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def answering() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("html", "no OpenAI-compatible engine"),
        ("list", "no OpenAI-compatible"),
        ("missing", "HTTP 404"),
        ("deep", "no OpenAI-compatible"),
        ("locked", "OPENAI_API_KEY"),
        ("two", "serves a, b"),
    ],
)
def test_what_is_no_engine_is_said(answering: str, kind: str, says: str) -> None:
    with pytest.raises(KilocardError, match=says):
        identify(Target(f"{answering}/{kind}", "m"))


def test_a_model_may_be_left_out_when_there_is_one(answering: str, truth: TruthServer) -> None:
    found = identify(Target(f"{answering}/vllm", ""))
    assert (found.model, found.engine, found.version, found.kind) == ("a", "vLLM", "9.9", "measured")
    with pytest.raises(KilocardError, match="several models: a, b"):
        identify(Target(f"{answering}/two", ""))
    with pytest.raises(KilocardError, match="does not serve 'm': it serves truth"):
        identify(Target(truth.url, "m"))


def test_odd_names_and_numbers_are_not_taken_over(answering: str) -> None:
    found = identify(Target(f"{answering}/odd", ""))
    assert (found.model, found.max_model_len, found.version) == ("a", None, "")
    assert found.engine.encode()


def test_an_engine_that_drips_its_answer_is_not_waited_for() -> None:
    def drip(caller: socket.socket) -> None:
        with contextlib.suppress(OSError):
            caller.recv(1000)
            caller.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                caller.sendall(b"x: y\r\n")
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: drip(server.accept()[0]), daemon=True).start()
        begun = time.monotonic()
        with pytest.raises(KilocardError, match=r"not done within 0\.4 s"):
            identify(Target(f"http://127.0.0.1:{server.getsockname()[1]}", ""), timeout_s=0.4)
        assert time.monotonic() - begun < 5


def test_nobody_there() -> None:
    with pytest.raises(KilocardError, match="kilocard engine"):
        identify(Target("http://127.0.0.1:9", "m"))
