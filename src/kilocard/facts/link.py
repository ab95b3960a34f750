"""The wire between two cards of one box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from kilocard.errors import KilocardError
from kilocard.facts.limits import LARGEST, Rate
from kilocard.facts.source import STRICT_ROW, Source


@dataclass(frozen=True, slots=True)
class Link:
    """A card's link to its neighbours; rates in GB/s (10^9), one way and both ways named apart.

    Datasheets print the sum of both directions; a ring collective is bound by one. None is unknown.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_ROW

    id: str
    name: str
    one_way_gb_per_s: Rate | None
    both_ways_gb_per_s: Rate | None
    source: Source
    notes: str = ""
    unverified: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for rate in (self.one_way_gb_per_s, self.both_ways_gb_per_s):
            if rate is not None and not 0 < rate < LARGEST:
                raise KilocardError(f"link {self.id}: a rate of {rate} GB/s; give a positive number, or null")

    @property
    def one_way_bytes_per_s(self) -> float | None:
        """Bytes per second that leave a card while as many may arrive."""
        return None if self.one_way_gb_per_s is None else self.one_way_gb_per_s * 1e9
