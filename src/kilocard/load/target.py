"""The engine to be loaded: its address, its model, and the bytes that one request to it is."""

from __future__ import annotations

import json
import os
import ssl
from base64 import b64encode
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from kilocard import __version__
from kilocard.errors import KilocardError
from kilocard.load.address import Address, address_of
from kilocard.workload import FIRST_TOKEN_ID, Request

Endpoint = Literal["completions", "chat"]
PATHS: dict[str, str] = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
WORDS = (
    *("river", "stone", "light", "paper", "green", "small"),
    *("open", "north", "water", "under", "table", "seven"),
)
KEY_VARIABLES = ("KILOCARD_API_KEY", "OPENAI_API_KEY")
DEFAULT_VOCABULARY = 30_000
MOST_VOCABULARY = 2**31


@dataclass(frozen=True)
class Target:
    """An OpenAI-compatible endpoint. `url` may carry a path prefix, with or without a final `/v1`.

    Prompts go to `completions` as lists of token ids below `vocabulary` (their length is exact) and to `chat`
    as words (their length is what the engine reports). The API key comes from the environment unless given;
    a URL with `user:password@` asks for Basic authorization instead, and is kept without it.
    """

    url: str
    model: str
    endpoint: Endpoint = "completions"
    api_key: str | None = field(default=None, repr=False)
    vocabulary: int = DEFAULT_VOCABULARY
    login: str | None = field(default=None, repr=False)
    """`user:password`."""

    def __post_init__(self) -> None:
        if self.endpoint not in PATHS:
            raise KilocardError(f"unknown endpoint {self.endpoint!r}: use completions or chat")
        if not FIRST_TOKEN_ID < self.vocabulary <= MOST_VOCABULARY:
            raise KilocardError(
                f"a vocabulary of {self.vocabulary} is not possible: use {FIRST_TOKEN_ID + 1}"
                f" (prompts use ids from {FIRST_TOKEN_ID} up) to {MOST_VOCABULARY}"
            )
        object.__setattr__(self, "login", self.login or self.address.login)
        object.__setattr__(self, "url", self.address.url)
        _ = self.headers

    @cached_property
    def address(self) -> Address:
        """The parts of the URL."""
        return address_of(self.url)

    @property
    def host(self) -> str:
        """Host name or address."""
        return self.address.host

    @property
    def port(self) -> int:
        """Port, from the URL or its scheme."""
        return self.address.port

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.address.scheme == "https"

    @cached_property
    def ssl_context(self) -> ssl.SSLContext | None:
        """The context for https, None for http."""
        return ssl.create_default_context() if self.tls else None

    @property
    def prefix(self) -> str:
        """The path under which `/v1` lies."""
        return self.address.prefix

    @cached_property
    def headers(self) -> dict[str, str]:
        """What every request to the target carries."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        headers = {"Host": f"{name}:{self.port}", "User-Agent": f"kilocard/{__version__}"}
        allowed = self._authorization()
        return {**headers, "Authorization": allowed} if allowed else headers

    def _authorization(self) -> str:
        if self.login and not self.api_key:
            return f"Basic {b64encode(self.login.encode()).decode()}"
        key = self.api_key or next(filter(None, map(os.environ.get, KEY_VARIABLES)), "")
        if not (key.isascii() and key.isprintable()):
            raise KilocardError(
                "the API key holds a line break or a letter beyond ASCII, which no HTTP header takes:"
                f" set {' or '.join(KEY_VARIABLES)} to the key alone"
            )
        return f"Bearer {key}" if key else ""

    def question(self, path: str) -> bytes:
        """One GET of a path beside the endpoint."""
        return self._head(f"GET {self.prefix}{path}", self.headers)

    def encode(self, request: Request) -> bytes:
        """The whole HTTP request: built before the clock runs, so that sending is one write."""
        return self.frame(self.body(request), request.request_id, request.priority)

    def frame(self, body: dict[str, Any], request_id: str, priority: str | None = None) -> bytes:
        """One POST of a JSON body to the endpoint; a gateway reads the priority."""
        content = json.dumps(body, separators=(",", ":")).encode()
        head = {
            **self.headers,
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "X-Request-Id": request_id,
            "Content-Length": str(len(content)),
            **({"X-Priority": priority} if priority else {}),
        }
        return self._head(f"POST {self.prefix}{PATHS[self.endpoint]}", head) + content

    def _head(self, asked: str, headers: dict[str, str]) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{asked} HTTP/1.1\r\n{lines}\r\n".encode()

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON of one request: exactly `max_tokens` tokens, streamed, with usage."""
        ids = request.prompt_ids(self.vocabulary)
        return self.streamed(
            ids if self.endpoint == "completions" else " ".join(map(_word, ids)), request.max_tokens
        )

    def streamed(self, prompt: str | list[int], max_tokens: int, **options: Any) -> dict[str, Any]:
        """The JSON of one streamed request for a prompt of text or token ids."""
        asked: dict[str, Any] = {"prompt": prompt}
        if self.endpoint == "chat":
            asked = {"messages": [{"role": "user", "content": prompt}]}
        return {
            "model": self.model,
            **asked,
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            **options,
        }


def _word(token: int) -> str:
    return WORDS[token % len(WORDS)]
