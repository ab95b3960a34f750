"""One thing that the wiring of a box means for whoever serves on it."""

from __future__ import annotations

from dataclasses import dataclass

from kilocard.errors import KilocardError


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, what it means, and what to change; no change where nothing is to be done."""

    about: str
    found: str
    means: str
    change: str = ""

    def __post_init__(self) -> None:
        if not (self.about and self.found and self.means):
            raise KilocardError(f"a finding without its subject, fact or meaning: {self!r}")
