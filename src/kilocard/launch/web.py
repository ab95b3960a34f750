"""The few HTTP calls that watching an engine needs: never through a proxy, never on the hot path."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPResponse
from typing import Any

MOST_BYTES = 8 * 2**20
PIECE_BYTES = 2**16

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NoAnswerError(Exception):
    """The address does not answer, or not with what was asked for; `status` is null without an answer."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


def get_text(url: str, timeout_s: float = 5.0, key: str = "") -> str:
    """GET a page as text; `key` is shown where one is asked for."""
    return _fetch(url, None, timeout_s, key)


def get_json(url: str, timeout_s: float = 5.0, key: str = "") -> Any:
    """GET a JSON document."""
    return _parsed(get_text(url, timeout_s, key))


def post_json(url: str, body: dict[str, Any], timeout_s: float = 60.0, key: str = "") -> Any:
    """POST a JSON document and read the one that answers it."""
    return _parsed(_fetch(url, json.dumps(body).encode(), timeout_s, key))


def _fetch(url: str, body: bytes | None, timeout_s: float, key: str = "") -> str:
    if not (key.isascii() and key.isprintable()):
        raise NoAnswerError("the key that is to be shown holds signs that no header carries")
    shown = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json", **shown})
        with _direct.open(request, timeout=timeout_s) as answer:
            return _whole(answer, time.monotonic() + timeout_s).decode("utf-8", errors="replace")
    except urllib.error.HTTPError as error:
        raise NoAnswerError(f"HTTP {error.code}: {_detail(error)}", error.code) from error
    except urllib.error.URLError as error:
        raise NoAnswerError(str(error.reason)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswerError(str(error) or type(error).__name__) from error


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return " ".join(error.read(2000).decode("utf-8", errors="replace").split())[:300]
    except (OSError, HTTPException):
        return "without a reason"


def _whole(answer: HTTPResponse, deadline: float) -> bytes:
    """The answer's body: of a server that sends for ever, or drop by drop, no more than fits."""
    body = b""
    while piece := answer.read1(PIECE_BYTES):
        body += piece
        if len(body) > MOST_BYTES:
            raise ValueError(f"the answer has more than {MOST_BYTES:,} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("the answer does not end")
    return body


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoAnswerError("the answer is not JSON") from error
