"""What a plan costs: card-hours, energy, and a million tokens. Prices are the user's."""

from __future__ import annotations

from dataclasses import dataclass

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.specs.target import Offer

HOURS_A_MONTH = 730.0
SECONDS_AN_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Cost:
    """An hour's, in card-hours, kWh of the cards alone, and money; None where nobody said a price or a
    power. `per_million_tokens` is at the target's rate, all cards paid all the time."""

    card_hours: float
    kwh: float | None
    price_per_hour: float | None
    per_million_tokens: float | None
    kwh_per_million_tokens: float | None

    @property
    def price_per_month(self) -> float | None:
        """Of 730 hours."""
        return None if self.price_per_hour is None else HOURS_A_MONTH * self.price_per_hour


def cost_of(offer: Offer, cards: int, output_tokens_per_s: float) -> Cost:
    """An hour of so many cards that give so many tokens a second; power is the board's limit, the most they
    may draw."""
    if cards < 1 or not output_tokens_per_s > 0:
        raise KilocardError(f"{cards} cards for {output_tokens_per_s:g} tokens/s: give numbers above 0")
    millions = output_tokens_per_s * SECONDS_AN_HOUR / 1e6
    watts = offer.watts or facts.card(offer.card).board_power_w
    kwh = None if watts is None else cards * float(watts) / 1e3
    price = None if offer.price_per_hour is None else cards * offer.price_per_hour
    return Cost(
        card_hours=float(cards),
        kwh=kwh,
        price_per_hour=price,
        per_million_tokens=None if price is None else price / millions,
        kwh_per_million_tokens=None if kwh is None else kwh / millions,
    )
