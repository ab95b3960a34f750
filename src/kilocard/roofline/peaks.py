"""The rates of a card that bound a step."""

from __future__ import annotations

from dataclasses import dataclass

from kilocard import facts
from kilocard.facts.card import Card
from kilocard.facts.dtypes import WeightDtype, weight_dtype


@dataclass(frozen=True, slots=True)
class Peaks:
    """The rates of a card that bound a step."""

    bytes_per_s: float
    quantized_flops_per_s: float
    plain_flops_per_s: float


def peaks(card: Card | str, weights: WeightDtype | str) -> Peaks:
    """The rates of `card` that bound a step with such weights."""
    card, weight = facts.card(card), weight_dtype(weights)
    plain = WeightDtype.FP32 if weight is WeightDtype.FP32 else WeightDtype.BF16
    return Peaks(
        card.memory_bandwidth_bytes_per_s, card.peak_flops_per_s(weight), card.peak_flops_per_s(plain)
    )
