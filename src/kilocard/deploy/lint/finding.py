"""One mistake in somebody's manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Weight = Literal["fault", "risk"]
"""What goes wrong by itself; what goes wrong on a bad day."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`rule` is its class; `told` says what happens because of it, and the way out."""

    rule: str
    weight: Weight
    file: str
    line: int
    object: str
    told: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.object}: {self.rule}: {self.told}"
