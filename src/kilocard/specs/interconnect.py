"""How the cards of a machine are joined, and the machines."""

from __future__ import annotations

from pydantic import Field, field_validator

from kilocard import facts
from kilocard.specs.numbers import Count
from kilocard.specs.written import Written

DEFAULT_NETWORK = "rdma-400g"
CARDS_PER_NODE = 8


class Interconnect(Written):
    """The link inside a machine (None is the card's own), how many cards it joins, and the network beyond."""

    link: str | None = Field(default=None, min_length=1)
    cards_per_node: Count = CARDS_PER_NODE
    network: str = Field(default=DEFAULT_NETWORK, min_length=1)

    @field_validator("link")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        return name if name is None else facts.link(name).id

    @field_validator("network")
    @classmethod
    def _joins_machines(cls, name: str) -> str:
        if not facts.link(name).between_machines:
            raise ValueError(f"{name} joins the cards of a machine, and no machines")
        return facts.link(name).id
