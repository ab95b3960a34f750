"""JSON that every reader takes: what is undefined is null, whatever a value's type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any


def to_json(value: Any, **options: Any) -> str:
    """One JSON text; infinities and NaN are null, arrays are lists, and other objects are their text."""
    return json.dumps(_plain(value), allow_nan=False, **options)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    return _plain(value.tolist()) if hasattr(value, "tolist") else str(value)
