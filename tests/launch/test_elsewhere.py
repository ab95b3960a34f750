"""An engine elsewhere is asked who it is, and an odd answer is one line."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kilocard.cli import doctor
from kilocard.cli.check import State
from kilocard.errors import KilocardError
from kilocard.launch import elsewhere, start, web

Answer = Callable[[bytes], str]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answer]:
    """A server that gives the same bytes to every question, named by KILOCARD_ENGINE_URL."""
    given = [b""]

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(given[0])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def answer(content: bytes) -> str:
            given[0] = content
            address = f"127.0.0.1:{server.server_port}"
            monkeypatch.setenv(elsewhere.VARIABLE, address)
            return address

        yield answer
        server.shutdown()


def models(**row: object) -> bytes:
    return json.dumps({"data": [{"id": "some-model", **row}]}).encode()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (models(max_model_len=float("nan")), "its max_model_len is 'nan', no whole number from 1"),
        (models(max_model_len="4096"), "its max_model_len is '4096'"),
        (models(max_model_len=-1), "its max_model_len is '-1'"),
        (models(max_model_len=True), "its max_model_len is 'True'"),
        (models(max_model_len=[1]), "its max_model_len is '[1]'"),
        (b'{"data": []}', "it serves no model"),
        (b'{"data": 5}', "not iterable"),
        (b'{"data": ["text"]}', "string indices"),
        (b"[" * 200_000, "the answer is not JSON"),
        (b" " * (web.MOST_BYTES + 1), "more than 8,388,608 bytes"),
    ],
)
def test_an_odd_answer_is_one_line(answering: Answer, content: bytes, complaint: str) -> None:
    address = answering(content)
    with pytest.raises(KilocardError) as caught:
        start()
    assert complaint in str(caught.value)
    assert f"KILOCARD_ENGINE_URL=http://{address} is no engine" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert doctor._engine_elsewhere().state is State.FAIL


def test_an_address_without_a_scheme_means_http(answering: Answer) -> None:
    address = answering(models(max_model_len=64))
    assert elsewhere.named_url() == f"http://{address}"
    check = doctor._engine_elsewhere()
    assert (check.state, check.found) == (State.OK, f"http://{address} serves some-model")
    assert elsewhere.served_at(elsewhere.named_url()).max_model_len == 64


def test_an_answer_that_comes_by_drops_is_left() -> None:
    class Drops:
        def read1(self, _: int) -> bytes:
            return b" "

    with pytest.raises(TimeoutError, match="does not end"):
        web._whole(Drops(), deadline=0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["http://me:secret@127.0.0.1:8000", "http://me:secret@127.0.0.1:99999"])
def test_a_password_is_neither_sent_nor_shown(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(elsewhere.VARIABLE, url)
    with pytest.raises(KilocardError, match="is no engine") as caught:
        start()
    assert "secret" not in str(caught.value)
    assert "secret" not in doctor._engine_elsewhere().found
