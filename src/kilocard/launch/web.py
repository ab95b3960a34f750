"""The few HTTP calls that watching an engine needs: never through a proxy, never on the hot path."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NoAnswerError(Exception):
    """The address does not answer, or not with what was asked for; `status` is null without an answer."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


def get_text(url: str, timeout_s: float = 5.0) -> str:
    """GET a page as text."""
    return _fetch(url, None, timeout_s)


def get_json(url: str, timeout_s: float = 5.0) -> Any:
    """GET a JSON document."""
    return _parsed(get_text(url, timeout_s))


def post_json(url: str, body: dict[str, Any], timeout_s: float = 60.0) -> Any:
    """POST a JSON document and read the one that answers it."""
    return _parsed(_fetch(url, json.dumps(body).encode(), timeout_s))


def _fetch(url: str, body: bytes | None, timeout_s: float) -> str:
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with _direct.open(request, timeout=timeout_s) as answer:
            text: bytes = answer.read()
            return text.decode("utf-8", errors="replace")
    except urllib.error.HTTPError as error:
        detail = error.read(2000).decode("utf-8", errors="replace")
        raise NoAnswerError(f"HTTP {error.code}: {' '.join(detail.split())[:300]}", error.code) from error
    except urllib.error.URLError as error:
        raise NoAnswerError(str(error.reason)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswerError(str(error) or type(error).__name__) from error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise NoAnswerError("the answer is not JSON") from error
