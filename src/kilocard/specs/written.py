"""What a user writes as keys and values: an unknown key is told with the nearest known one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import AliasChoices, BaseModel, ConfigDict, model_validator

from kilocard.errors import near_match

LONGEST_TOLD = 60


class Written(BaseModel):
    """Keys and values that are checked when they are read, and stay as they are."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_by_name=True, protected_namespaces=()
    )
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that users look for here, and where they stand."""

    @model_validator(mode="before")
    @classmethod
    def _every_key_is_known(cls, raw: Any) -> Any:
        known = cls._names()
        for key in raw if isinstance(raw, Mapping) else ():
            if key not in known:
                hint = cls.elsewhere.get(str(key)) or near_match(str(key)[:LONGEST_TOLD], known)
                raise ValueError(f"unknown key {str(key)[:LONGEST_TOLD]!r}: {hint}")
        return raw

    @classmethod
    def _names(cls) -> set[str]:
        """The fields, and what else they may be called."""
        names = set(cls.model_fields)
        for field in cls.model_fields.values():
            if isinstance(field.validation_alias, AliasChoices):
                names.update(str(name) for name in field.validation_alias.choices)
        return names
