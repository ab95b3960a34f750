"""Where a number comes from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from pydantic import ConfigDict

from kilocard.errors import KilocardError

STRICT_ROW = ConfigDict(extra="forbid")
"""A row with a key that nobody reads is a misspelt row."""


class FactKind(StrEnum):
    """How a fact came to be known."""

    PUBLISHED = "published"
    MEASURED = "measured"
    DERIVED = "derived"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class Source:
    """The publication behind a row: `date` is its edition (a year will do), `kind` how the fact is known."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_ROW

    citation: str
    date: str
    kind: FactKind
    link: str = ""

    def __post_init__(self) -> None:
        if not self.citation.strip() or not self.date.strip():
            raise KilocardError("a source needs a citation and a date: name the publication and its year")
