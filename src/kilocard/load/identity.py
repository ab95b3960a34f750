"""Who answers at a URL: asked before any load, and written into the stamp."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from kilocard.errors import KilocardError
from kilocard.load.answer import count_of, json_of, short, whole_characters
from kilocard.load.client import Client, Timeouts
from kilocard.load.connection import End, Exchange
from kilocard.load.in_thread import run_in_thread
from kilocard.load.stream import Body
from kilocard.load.target import Target
from kilocard.record import Kind
from kilocard.record.stamp import kind_of
from kilocard.workload import Request

PROBE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Identity:
    """An engine as it names itself."""

    model: str
    engine: str
    version: str
    kind: Kind
    max_model_len: int | None = None
    card: str = ""
    """The card that is emulated."""


def identify(target: Target, timeout_s: float = PROBE_TIMEOUT_S) -> Identity:
    """Ask `/v1/models` and `/version`; an error says what is wrong with the URL or the model's name.

    Each answer has to be whole within `timeout_s`. A target without a model's name means the only one served.
    """
    models, version = _asked(target, timeout_s)
    chosen = _chosen(target, _served_models(target, models))
    owner = short(chosen.get("owned_by") or "")
    kind = kind_of(owner)
    return Identity(
        model=chosen["id"],
        engine="vLLM" if owner == "vllm" else owner or "unknown",
        version=_version(version),
        kind=kind,
        max_model_len=_context_of(chosen),
        card=short(chosen.get("card") or "") if kind is Kind.EMULATED else "",
    )


def _chosen(target: Target, served: list[dict[str, Any]]) -> dict[str, Any]:
    if not target.model and len(served) == 1:
        return served[0]
    for model in served:
        if model.get("id") == target.model:
            return model
    names = short(", ".join(sorted(model["id"] for model in served))) or "nothing"
    asked = f"does not serve {target.model!r}: it serves" if target.model else "serves several models:"
    raise KilocardError(f"{target.url} {asked} {names}; name one with --model")


async def is_alive(target: Target, timeout_s: float = 3.0) -> bool:
    """Whether anybody answers HTTP there."""
    async with Client(target, Timeouts(timeout_s, timeout_s)) as client:
        return (await _ask(client, target, "/v1/models")).status is not None


def is_local(target: Target) -> bool:
    """Whether the engine runs on this machine, by its loopback address."""
    if target.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(target.host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a GET brought; without a status nobody answered, and `problem` says why."""

    status: int | None
    content_type: str
    content: bytes
    problem: str


async def _ask(client: Client, target: Target, path: str) -> _Answer:
    exchange = Exchange(Request("identity", 0, 0), target.question(path))
    await client.send(exchange)
    body = Body(exchange.reads)
    answered = exchange.end in (End.COMPLETE, End.CUT)
    return _Answer(
        body.http_status if answered else None,
        body.content_type.split(";")[0],
        body.content,
        exchange.detail or "no HTTP answer",
    )


def _asked(target: Target, timeout_s: float) -> tuple[_Answer, _Answer]:
    """The answers to `/v1/models` and `/version`."""
    answers: list[_Answer] = []

    async def ask() -> None:
        async with Client(target, Timeouts(timeout_s, timeout_s)) as client:
            for path in ("/v1/models", "/version"):
                answers.append(await _ask(client, target, path))

    run_in_thread(ask, lambda: None)
    models, version = answers
    return models, version


def _served_models(target: Target, answer: _Answer) -> list[dict[str, Any]]:
    if answer.status is None:
        raise KilocardError(
            f"no engine answers at {target.url} ({answer.problem}):"
            " start one (`kilocard engine`) or name another"
        )
    if answer.status in (401, 403):
        raise KilocardError(
            f"{target.url} wants an API key (HTTP {answer.status}): set KILOCARD_API_KEY or OPENAI_API_KEY"
        )
    models = _model_list(answer.content) if answer.status == 200 else None
    if models is None:
        raise KilocardError(
            f"{target.url} is no OpenAI-compatible engine: GET /v1/models gave HTTP {answer.status}"
            f" ({answer.content_type or 'no content type'}); name the URL of one, like http://127.0.0.1:8000"
        )
    return models


def _model_list(content: bytes) -> list[dict[str, Any]] | None:
    try:
        answer = json_of(content)
    except ValueError:
        return None
    models = answer.get("data") if isinstance(answer, dict) else None
    return [model for model in models if _has_name(model)] if isinstance(models, list) else None


def _has_name(model: Any) -> bool:
    name = model.get("id") if isinstance(model, dict) else None
    return isinstance(name, str) and whole_characters(name) == name


def _version(answer: _Answer) -> str:
    try:
        told = json_of(answer.content)
    except ValueError:
        return ""
    return short(told.get("version") or "") if answer.status == 200 and isinstance(told, dict) else ""


def _context_of(model: dict[str, Any]) -> int | None:
    try:
        return count_of("max_model_len", model.get("max_model_len"))
    except ValueError:
        return None
