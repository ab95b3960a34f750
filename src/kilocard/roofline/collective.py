"""What tensor parallelism adds to a step: its allreduces, estimated."""

from __future__ import annotations

import math

from kilocard import facts
from kilocard.facts.card import Card
from kilocard.facts.model import Model

ALLREDUCE_S = 10e-6
"""Estimate: start-up time of an allreduce over two cards, growing by as much with each doubling of them.
From a fit of published step times of vLLM on H100 with NVLink; unverified for other links."""
ALLREDUCES_PER_LAYER = 2


def collective_s(model: Model | str, card: Card | str, tokens: int, tp: int) -> float | None:
    """Time a step of `tokens` tokens spends in allreduces: an estimate; 0 at TP 1, None on an unknown link.

    Two a layer, of tokens x hidden 16-bit elements, as a ring: 2 (n - 1) / n x bytes / one-way bandwidth
    (Patarasuk and Yuan, 2009), and a start-up time of 10 us x (1 + log2(n / 2)).
    """
    if tp == 1:
        return 0.0
    model, card = facts.model(model), facts.card(card)
    bandwidth = facts.link(card.link).one_way_bytes_per_s
    if bandwidth is None:
        return None
    moved = 2 * (tp - 1) / tp * tokens * model.hidden_size * 2
    return ALLREDUCES_PER_LAYER * model.layers * (moved / bandwidth + ALLREDUCE_S * (1 + math.log2(tp / 2)))
