"""What tensor parallelism adds to a step: its allreduces, estimated."""

from __future__ import annotations

from kilocard import facts
from kilocard.facts.card import Card
from kilocard.facts.model import Model
from kilocard.parallel.fabric import fabric

ALLREDUCES_PER_LAYER = 2
ACTIVATION_BYTES = 2


def message_bytes(model: Model, tokens: int) -> int:
    """What a rank brings to an allreduce: an activation of `hidden_size` 16-bit elements for each token."""
    return tokens * model.hidden_size * ACTIVATION_BYTES


def collective_s(model: Model | str, card: Card | str, tokens: int, tp: int) -> float | None:
    """Time a step of `tokens` tokens spends in allreduces: an estimate; 0 at TP 1, None on an unknown link.

    Two a layer, over the card's own link inside a machine as others have measured it, RDMA beyond.
    """
    if tp == 1:
        return 0.0
    model, card = facts.model(model), facts.card(card)
    if facts.link(card.link).one_way_bytes_per_s is None:
        return None
    allreduce_s = fabric(card).allreduce_s(message_bytes(model, tokens), tp)
    return ALLREDUCES_PER_LAYER * model.layers * float(allreduce_s)
