"""Looks at engines and gateways that must not hold the supervisor up: each is asked by a thread, and what it
says counts when it has said it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from kilocard.launch import web

THREADS = 32
HEALTH_TIMEOUT_S, SIGN_TIMEOUT_S, COMPLETION_TIMEOUT_S = 2.0, 10.0, 60.0


class Watch:
    """One question at a time to each; answers are taken once."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kilocard-look")
        self._asked: dict[str, tuple[Future[Any], float]] = {}
        self._last_s: dict[str, float] = {}

    def ask(self, name: str, now_s: float, every_s: float, question: Any, *about: Any) -> None:
        """Unless it was asked less than `every_s` ago, or has not answered yet."""
        if name not in self._asked and now_s - self._last_s.get(name, -1e9) >= every_s:
            self._last_s[name] = now_s
            self._asked[name] = (self._threads.submit(question, *about), now_s)

    def answer(self, name: str) -> Any:
        """What it has said since; None where it has said nothing yet."""
        future, _ = self._asked.get(name, (None, 0.0))
        if future is None or not future.done():
            return None
        del self._asked[name]
        return future.result()

    def forget(self, name: str) -> None:
        """Whatever it still says is of somebody who is gone."""
        self._asked.pop(name, None)
        self._last_s.pop(name, None)

    def close(self) -> None:
        """Wait for nobody."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def completes(url: str, model: str, key: str = "") -> bool:
    """Whether an engine is there and finishes a tiny completion."""
    body = {"model": model, "prompt": "Ready?", "max_tokens": 1, "temperature": 0}
    try:
        web.get_text(f"{url}/health", HEALTH_TIMEOUT_S)
        told = web.post_json(f"{url}/v1/completions", body, COMPLETION_TIMEOUT_S, key)
        return bool(told["choices"])
    except (web.NoAnswerError, LookupError, TypeError):
        return False


def is_healthy(url: str) -> bool:
    """Whether an engine or a gateway is there and well."""
    return _status(url) == 200


def answers(url: str) -> bool:
    """Whether anything is there."""
    return _status(url) is not None


def _status(url: str) -> int | None:
    try:
        web.get_text(f"{url}/health", SIGN_TIMEOUT_S)
        return 200
    except web.NoAnswerError as error:
        return error.status
