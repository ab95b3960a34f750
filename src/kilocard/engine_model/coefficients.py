"""What a calibration finds: shares of the datasheet's rates that an engine reaches, and the times it adds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from kilocard.errors import KilocardError


@dataclass(frozen=True, slots=True)
class Coefficients:
    """One engine on one card. `*_efficiency` are shares of the card's or its link's rate; the rest are
    seconds.

    A step costs `step_s`, and `layer_s` a layer, `moe_layer_s` a mixture-of-experts layer (with quantized
    experts
    `quantized_moe_layer_s`), `allreduce_s` an allreduce of two cards, `sequence_s` a request in it,
    `prefill_step_s` where it
    holds prompt tokens. Of the experts that no token of a step chose, `idle_expert_share` cost as
    if one had. A request costs `request_s` outside the engine's steps (HTTP, tokenizer, hand-over).
    """

    weights_efficiency: float = 0.84
    kv_efficiency: float = 0.81
    compute_efficiency: float = 0.6
    attention_efficiency: float = 0.4
    link_efficiency: float = 0.8
    idle_expert_share: float = 0.5
    step_s: float = 0.8e-3
    layer_s: float = 5e-6
    moe_layer_s: float = 7e-6
    quantized_moe_layer_s: float = 52e-6
    allreduce_s: float = 10e-6
    sequence_s: float = 12e-6
    prefill_step_s: float = 1.2e-3
    request_s: float = 7e-3

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_time = field.name.endswith("_s")
            if not (0 <= value < 3600 if is_time else 0 < value <= 2):
                limit = "seconds from 0 to 3600" if is_time else "a share over 0 and up to 2"
                raise KilocardError(f"coefficient {field.name} is {value}; give {limit}")

    def with_(self, **changes: float) -> Self:
        """The same but for some."""
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as a calibration file holds them."""
        return asdict(self)
