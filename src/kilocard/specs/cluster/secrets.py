"""Secrets, told by their names and shapes: none may stand in a cluster file, and none is ever shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kilocard.specs.cluster.overrides import Place

SECRET_FLAGS = {
    "--api-key": "gateway.engine_key: {file: PATH} or {variable: NAME}, which engines are given, too",
    "--hf-token": "engine.environment: {HF_TOKEN: {variable: HF_TOKEN}}",
    "--ssl-keyfile-password": "keep the key file without one, readable for the engine's user alone",
}
"""vLLM's flags that take a secret, and where it stands instead."""

_NAMES = re.compile(r"(?:^|_)(?:key|token|secret|passwd|password|credentials?)$", re.IGNORECASE)
_SHAPES = re.compile(
    r"""\b(?:hf_[A-Za-z0-9]{20,}
    |sk-[A-Za-z0-9_-]{20,}
    |kc-[A-Za-z0-9_-]{20,}
    |gh[pousr]_[A-Za-z0-9]{20,}
    |AKIA[0-9A-Z]{16}
    |eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})
    |-----BEGIN[ A-Z]*PRIVATE[ ]KEY
    |\b[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s@]+@""",
    re.VERBOSE,
)
"""Tokens of well-known makers, private keys, and passwords in URLs."""
HIDDEN = "***"


def is_secret_name(name: str) -> bool:
    """Whether what is called so is a secret, like HF_TOKEN or AWS_SECRET_ACCESS_KEY."""
    return _NAMES.search(name) is not None


def looks_secret(text: str) -> bool:
    """Whether a secret is in it, by its shape."""
    return _SHAPES.search(text) is not None


def without_secrets(text: str) -> str:
    """The text, with what looks like a secret hidden."""
    return _SHAPES.sub(HIDDEN, text)


def secret_places(content: Any) -> list[Place]:
    """Where in a file's content something looks like a secret; what an alias repeats is looked at once."""
    return list(_places(content, (), set()))


def _places(content: Any, place: Place, seen: set[int]) -> Iterator[Place]:
    if isinstance(content, str):
        if looks_secret(content):
            yield place
        return
    if id(content) in seen or not isinstance(content, Mapping | Sequence) or isinstance(content, bytes):
        return
    seen.add(id(content))
    for key, value in content.items() if isinstance(content, Mapping) else enumerate(content):
        if isinstance(key, str) and looks_secret(key):
            yield place
        yield from _places(value, (*place, key if isinstance(key, int) else str(key)), seen)
