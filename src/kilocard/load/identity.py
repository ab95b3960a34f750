"""Who answers at a URL: asked before any load, and written into the stamp."""

from __future__ import annotations

import http.client
import ipaddress
import json
from dataclasses import dataclass
from typing import Any

from kilocard.errors import KilocardError
from kilocard.load.target import Target
from kilocard.record import Kind

PROBE_TIMEOUT_S = 10.0
EMULATED_OWNERS = "kilocard-"
"""Servers of this project that only play an engine say so in `owned_by`."""


@dataclass(frozen=True, slots=True)
class Identity:
    """An engine as it names itself."""

    model: str
    engine: str
    version: str
    kind: Kind
    max_model_len: int | None = None


def identify(target: Target, timeout_s: float = PROBE_TIMEOUT_S) -> Identity:
    """Ask `/v1/models` and `/version`; an error says what is wrong with the URL or the model's name.

    A target without a model's name means the only one served.
    """
    chosen = _chosen(target, _served_models(target, timeout_s))
    owner = str(chosen.get("owned_by") or "")
    version = _version(target, timeout_s)
    emulated = owner.startswith(EMULATED_OWNERS)
    return Identity(
        model=str(chosen["id"]),
        engine="vLLM" if owner == "vllm" else owner or "unknown",
        version=version,
        kind=Kind.EMULATED if emulated else Kind.MEASURED,
        max_model_len=chosen.get("max_model_len"),
    )


def _chosen(target: Target, served: list[dict[str, Any]]) -> dict[str, Any]:
    if not target.model and len(served) == 1:
        return served[0]
    for model in served:
        if model.get("id") == target.model:
            return model
    names = ", ".join(sorted(str(model.get("id")) for model in served)) or "nothing"
    asked = f"does not serve {target.model!r}: it serves" if target.model else "serves several models:"
    raise KilocardError(f"{target.url} {asked} {names}; name one with --model")


def is_alive(target: Target, timeout_s: float = 3.0) -> bool:
    """Whether anybody answers HTTP there."""
    try:
        _get(target, "/v1/models", timeout_s)
    except (OSError, http.client.HTTPException):
        return False
    return True


def is_local(target: Target) -> bool:
    """Whether the engine runs on this machine, by its loopback address."""
    if target.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(target.host).is_loopback
    except ValueError:
        return False


def _served_models(target: Target, timeout_s: float) -> list[dict[str, Any]]:
    try:
        status, content_type, content = _get(target, "/v1/models", timeout_s)
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise KilocardError(
            f"no engine answers at {target.url} ({cause}): start one (`kilocard engine`) or name another"
        ) from error
    if status in (401, 403):
        raise KilocardError(
            f"{target.url} wants an API key (HTTP {status}): set KILOCARD_API_KEY or OPENAI_API_KEY"
        )
    models = _model_list(content) if status == 200 else None
    if models is None:
        raise KilocardError(
            f"{target.url} is no OpenAI-compatible engine: GET /v1/models gave HTTP {status}"
            f" ({content_type or 'no content type'}); name the URL of one, like http://127.0.0.1:8000"
        )
    return models


def _model_list(content: bytes) -> list[dict[str, Any]] | None:
    try:
        answer = json.loads(content)
    except ValueError:
        return None
    models = answer.get("data") if isinstance(answer, dict) else None
    return (
        [model for model in models if isinstance(model, dict) and "id" in model]
        if isinstance(models, list)
        else None
    )


def _version(target: Target, timeout_s: float) -> str:
    try:
        status, _, content = _get(target, "/version", timeout_s)
        answer = json.loads(content)
    except (OSError, http.client.HTTPException, ValueError):
        return ""
    return str(answer.get("version") or "") if status == 200 and isinstance(answer, dict) else ""


def _get(target: Target, path: str, timeout_s: float) -> tuple[int, str, bytes]:
    if target.tls:
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            target.host, target.port, timeout=timeout_s, context=target.ssl_context
        )
    else:
        connection = http.client.HTTPConnection(target.host, target.port, timeout=timeout_s)
    try:
        connection.request("GET", target.prefix + path, headers=target.headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", "").split(";")[0], answer.read(1_000_000)
    finally:
        connection.close()
