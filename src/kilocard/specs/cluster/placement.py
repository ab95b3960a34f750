"""Where replicas go: by labels of the machines, as the cluster's scheduler knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from kilocard.specs.written import Written

Label = Annotated[
    str,
    Field(pattern=r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"),
]
"""A label's name, like topology.kubernetes.io/zone."""
Value = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]
HOST = "kubernetes.io/hostname"


class Placement(Written):
    """Labels of machines. `card` tells which card they have, in the words of `card_values` (card's id →
    the label's value; what NVIDIA's feature discovery writes for well-known cards is known); where a replica
    takes several machines they have the same `together`; replicas spread over each of `apart`."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "spread": "did you mean 'apart'?",
        "switch": "did you mean 'together'?",
    }

    card: Label = "nvidia.com/gpu.product"
    card_values: dict[str, Value] = Field(default_factory=dict, max_length=1000)
    together: Label | None = None
    apart: tuple[Label, ...] = Field(default=(HOST,), max_length=8)
