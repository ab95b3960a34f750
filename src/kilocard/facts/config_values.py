"""The values of a Hugging Face `config.json`, each of the type that it must have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilocard.errors import KilocardError, near_match
from kilocard.facts.limits import MOST_LAYERS

STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

Config = Mapping[str, Any]


def size_of(config: Config, key: str, default: int | None = None) -> int:
    """A whole number from 0; an error where it is missing and there is no default."""
    value = config.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        known = "is missing" if value is None else f"is {shown(value)}, not a whole number from 0"
        raise KilocardError(f"{key} {known}; it has to be a decoder-only model's config.json")
    return value


def layers_of(config: Config) -> int:
    """How many layers the model has, no more than a loop over them can take."""
    layers = size_of(config, "num_hidden_layers")
    if layers > MOST_LAYERS:
        raise KilocardError(f"num_hidden_layers is {layers}; at most {MOST_LAYERS:,} are counted")
    return layers


def flag_of(config: Config, key: str, default: bool) -> bool:
    """True or false; null is the default."""
    value = config.get(key)
    if not isinstance(value, bool | None):
        raise KilocardError(f"{key} is {shown(value)}, not true or false")
    return default if value is None else value


def text_of(config: Config, key: str) -> str:
    """A text; empty where it is missing."""
    value = config.get(key)
    if not isinstance(value, str | None):
        raise KilocardError(f"{key} is {shown(value)}, not a text")
    return value or ""


def list_of(config: Config, key: str, of: type) -> list[Any]:
    """A list of values of one type; empty where it is missing."""
    value = config.get(key) or []
    if not isinstance(value, list) or any(type(item) is not of for item in value):
        raise KilocardError(f"{key} is {shown(value)}, not a list of {of.__name__}")
    return value


def shown(value: object) -> str:
    """The beginning of a value, for an error."""
    return repr(str(value)[:40])


def state_bytes_of(config: Config) -> int:
    """Bytes of an element of recurrent state."""
    dtype = text_of(config, "mamba_ssm_dtype") or "float32"
    if dtype not in STATE_BYTES:
        raise KilocardError(f"mamba_ssm_dtype {dtype[:40]!r}: {near_match(dtype, STATE_BYTES)}")
    return STATE_BYTES[dtype]


def first_size_of(config: Config, *keys: str) -> int:
    """The first of these sizes that is given, or 0."""
    return next((size_of(config, key) for key in keys if config.get(key) is not None), 0)
