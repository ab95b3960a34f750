"""What a replica has to manage, whatever its layout."""

from __future__ import annotations

from dataclasses import dataclass

from kilocard.errors import KilocardError

MOST_REQUESTS = 10**6


@dataclass(frozen=True, slots=True)
class Needs:
    """So many requests at once, within the limits where there are any; seconds."""

    concurrency: int = 4
    tpot_s: float | None = None
    ttft_s: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= MOST_REQUESTS:
            raise KilocardError(f"concurrency {self.concurrency}: give 1 to {MOST_REQUESTS:,} requests")

    @property
    def limited(self) -> bool:
        """Whether there is a limit on latency."""
        return bool(self.tpot_s or self.ttft_s)
