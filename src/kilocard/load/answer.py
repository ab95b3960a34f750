"""What somebody else's bytes say, read so that no answer can break the reader."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

MOST_TOKENS = 2**31
MESSAGE_LIMIT = 300
ODD_SHAPES = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""What looking into a value of an unforeseen shape may raise."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as an engine tells them; None is untold."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


def json_of(content: bytes) -> Any:
    """The value of a JSON text; ValueError for anything else, however deep it is nested."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def usage_of(told: Any) -> Usage:
    """The counts in a `usage` object; ValueError names the one that is none."""
    if not isinstance(told, dict):
        raise ValueError(f"usage {short(told)} is no object")
    details = told.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(
        count_of("prompt_tokens", told.get("prompt_tokens")),
        count_of("cached_tokens", cached),
        count_of("completion_tokens", told.get("completion_tokens")),
    )


def count_of(name: str, value: Any) -> int | None:
    """A number of tokens, or None where it is untold."""
    if value is None or (type(value) is int and 0 <= value <= MOST_TOKENS):
        return value
    raise ValueError(f"usage tells {name} {short(value)}, which is no count from 0 to {MOST_TOKENS}")


def message_of(error: Any) -> str:
    """The message in an error of OpenAI's shape, or all of it."""
    return short(error.get("message") or error) if isinstance(error, dict) else short(error)


def short(value: Any) -> str:
    """Any value in one line of bounded length that every file and terminal takes."""
    try:
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    except (ValueError, RecursionError) as error:
        text = f"a value that cannot be shown ({type(error).__name__})"
    text = " ".join(whole_characters(text).split())
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


def whole_characters(text: str) -> str:
    """Halves of a surrogate pair joined, and lone ones, which no file takes, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
