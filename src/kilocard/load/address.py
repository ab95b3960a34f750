"""A server's address as a person writes it: checked once, and never shown with its password."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from kilocard.errors import KilocardError

LIKE = "write it like http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a URL; `login` is its `user:password`, and `url` is without it."""

    url: str
    scheme: str
    host: str
    port: int
    prefix: str
    """The path under which `/v1` lies."""
    login: str | None = None


def address_of(text: str) -> Address:
    """The parts of `http://host:port/path`; `host:port` alone means http."""
    shown = repr(re.sub(r"^(\w+://)?.*@", r"\1…@", text))
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise KilocardError(
            f"the URL {shown} holds a space, a control character or a letter beyond ASCII: {LIKE}"
        )
    parts, port = _split(text, shown)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise KilocardError(f"{shown} is no engine's URL: {LIKE}")
    login = None
    if "@" in parts.netloc:
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    place = parts.netloc.rpartition("@")[2]
    return Address(
        parts._replace(netloc=place).geturl(),
        parts.scheme,
        parts.hostname,
        port or (443 if parts.scheme == "https" else 80),
        parts.path.rstrip("/").removesuffix("/v1"),
        login,
    )


def _split(text: str, shown: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(text)
        if "//" not in text and urlsplit(f"//{text}").port:
            parts = urlsplit(f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise KilocardError(f"{shown} is no valid address ({_reason(error)}): {LIKE}") from error
    if port == 0:
        raise KilocardError(f"{shown} has port 0, where nobody answers: {LIKE}")
    return parts, port


def _reason(error: ValueError) -> str:
    return "its port is no number from 1 to 65535" if "ort" in str(error) else str(error)
