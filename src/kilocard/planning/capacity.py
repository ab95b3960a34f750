"""How many replicas a target takes: the multiplication, what it leaves out, and what is kept in reserve."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from kilocard.errors import KilocardError

MOST_REPLICAS = 10_000_000


@dataclass(frozen=True, slots=True)
class Size:
    """Replicas by what asks for them: `ideal`, were each to give its best all the time; `efficient`, at what
    each gives in a cluster; `with_headroom`; and `spares`, so that enough are up."""

    ideal: int
    efficient: int
    with_headroom: int
    spares: int
    cards_per_replica: int = 1

    @property
    def replicas(self) -> int:
        """All that are bought."""
        return self.with_headroom + self.spares

    @property
    def cards(self) -> int:
        """All that are bought."""
        return self.replicas * self.cards_per_replica


def size_of(
    tokens_per_s: float,
    per_replica: float,
    *,
    efficiency: float = 1.0,
    headroom: float = 0.25,
    down_share: float = 0.0,
    availability: float = 0.999,
    cards_per_replica: int = 1,
) -> Size:
    """replicas = target × (1 + headroom) ÷ (tokens a second of one × efficiency), and spares beside them."""
    if not 0 < efficiency <= 1:
        raise KilocardError(f"an efficiency of {efficiency:g}: give a share above 0, at most 1")
    if not tokens_per_s > 0 or not per_replica > 0:
        raise KilocardError(
            f"{tokens_per_s:g} tokens/s from replicas of {per_replica:g}: give numbers above 0"
        )
    if tokens_per_s * (1 + headroom) / per_replica / efficiency > MOST_REPLICAS:
        raise KilocardError(
            f"{tokens_per_s:g} tokens/s take more than {MOST_REPLICAS:,} replicas of {per_replica:g}"
        )
    with_headroom = _whole(tokens_per_s * (1 + headroom) / (per_replica * efficiency))
    return Size(
        ideal=_whole(tokens_per_s / per_replica),
        efficient=_whole(tokens_per_s / (per_replica * efficiency)),
        with_headroom=with_headroom,
        spares=spares_for(with_headroom, down_share, availability),
        cards_per_replica=cards_per_replica,
    )


def down_share_of(card_hours: float, repair_h: float, cards_per_replica: int) -> float:
    """The share of the time in which a replica is away: one card's failure takes all of it.

    A card is up for MTBF ÷ (MTBF + MTTR) of the time, and a replica while all its cards are.
    """
    return float(1 - (card_hours / (card_hours + repair_h)) ** cards_per_replica)


def spares_for(needed: int, down_share: float, availability: float) -> int:
    """The fewest k with P(at most k of needed + k are down) ≥ availability, failures being independent: the
    binomial law. What takes several at once (a rack, a power domain) is for placement to bound."""
    if not 0 <= down_share < 1 or not 0 < availability < 1:
        raise KilocardError(
            f"replicas are down for {down_share:g} of the time, and {availability:g} is promised: give "
            "shares, the first under 1, the second between 0 and 1"
        )
    if down_share == 0:
        return 0
    from scipy.special import bdtr  # takes its time to load

    spares = 0
    while float(bdtr(spares, needed + spares, down_share)) < availability:
        spares += 1
    return spares


def _whole(number: float) -> int:
    return max(1, ceil(number - 1e-9))
