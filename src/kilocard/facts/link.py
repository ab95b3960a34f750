"""What joins two cards: a wire within a machine, or the network between two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from kilocard.errors import KilocardError
from kilocard.facts.limits import LARGEST, Flag, Rate
from kilocard.facts.source import STRICT_ROW, Source


@dataclass(frozen=True, slots=True)
class Link:
    """A card's way to its neighbours; rates in GB/s (10^9), one way and both ways named apart.

    Datasheets print the sum of both directions; a ring collective is bound by one. `allreduce_start_us` is
    what an allreduce of a few bytes between two cards takes, `allreduce_share` the share of the one-way rate
    that a large one reaches, both as `measured_source` found them. None is unknown. The cards of a machine
    have a link of the network each, or share one where `shared_by_machine`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_ROW

    id: str
    name: str
    one_way_gb_per_s: Rate | None
    both_ways_gb_per_s: Rate | None
    source: Source
    allreduce_start_us: Rate | None = None
    allreduce_share: Rate | None = None
    measured_source: Source | None = None
    between_machines: Flag = False
    shared_by_machine: Flag = False
    notes: str = ""
    unverified: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for rate in (self.one_way_gb_per_s, self.both_ways_gb_per_s):
            if rate is not None and not 0 < rate < LARGEST:
                raise KilocardError(f"link {self.id}: a rate of {rate} GB/s; give a positive number, or null")
        if (self.allreduce_start_us or self.allreduce_share) and self.measured_source is None:
            raise KilocardError(f"link {self.id}: what an allreduce reaches needs its own measured_source")
        if self.allreduce_share is not None and self.allreduce_share > 1.5:
            raise KilocardError(
                f"link {self.id}: allreduce_share is {self.allreduce_share}; give a share of the one-way rate"
            )

    @property
    def one_way_bytes_per_s(self) -> float | None:
        """Bytes per second that leave a card while as many may arrive."""
        return None if self.one_way_gb_per_s is None else self.one_way_gb_per_s * 1e9
