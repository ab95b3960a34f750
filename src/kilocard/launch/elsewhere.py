"""Engines that run elsewhere: named by KILOCARD_ENGINE_URL, and asked what they serve."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from kilocard.errors import KilocardError
from kilocard.launch import web

VARIABLE = "KILOCARD_ENGINE_URL"
WAY_OUT = "name the root of an OpenAI server, or unset it to have one started"


@dataclass(frozen=True, slots=True)
class Served:
    """A model that the engine serves, in the engine's own words."""

    url: str
    name: str
    owner: str
    max_model_len: int | None
    card: str = ""
    """The card that is emulated."""


def named_url() -> str:
    """The root URL in KILOCARD_ENGINE_URL, of several the first, or an empty text; host:port means http."""
    return next(iter(named_urls()), "")


def named_urls() -> list[str]:
    """The root URLs in KILOCARD_ENGINE_URL, separated by commas; host:port means http."""
    given = (part.strip() for part in os.environ.get(VARIABLE, "").split(","))
    return [_root_of(part) for part in given if part]


def _root_of(given: str) -> str:
    # Load brings pandas along, which nobody needs who starts an engine here.
    from kilocard.load.address import address_of

    try:
        address = address_of(given)
    except KilocardError as error:
        raise KilocardError(f"{VARIABLE} is no engine ({error})") from error
    if address.login:
        raise KilocardError(
            f"{VARIABLE} is no engine that can be asked here: it holds a login; leave that out"
        )
    return address.url.rstrip("/").removesuffix("/v1")


def served_at(url: str, wanted: str = "") -> Served:
    """What the engine at this root URL serves: the wanted model where it has it, else its first."""
    try:
        models = {str(row["id"]): row for row in web.get_json(f"{url}/v1/models")["data"]}
        name = wanted if wanted in models else next(iter(models))
        row = models[name]
        owner, card = str(row.get("owned_by") or "unknown"), str(row.get("card") or "")
        return Served(url, name, owner, _whole(row, "max_model_len"), card)
    except (web.NoAnswerError, LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
        reason = str(error) or "it serves no model"
        raise KilocardError(f"{VARIABLE}={url} is no engine ({reason}): {WAY_OUT}") from error


def _whole(row: dict[str, Any], key: str) -> int | None:
    value = row.get(key)
    if value is None or (type(value) is int and value > 0):
        return value
    raise ValueError(f"its {key} is {str(value)[:40]!r}, no whole number from 1")
