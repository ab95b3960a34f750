"""What a calibration finds: shares of the datasheet's rates that an engine reaches, and the times it adds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from kilocard.errors import KilocardError

LEAST_OF_A_RATE, MOST_SHARE, MOST_TIME_S = 0.001, 2, 3600
"""Under a thousandth of a rate, something else than the card is meant."""
MAY_BE_LEFT_OUT = ("long_message_share", "prefill_floor_s")


@dataclass(frozen=True, slots=True)
class Coefficients:
    """One engine on one card. `*_efficiency` are shares of the card's or its link's rate, the rest seconds.

    A step costs `step_s`, `layer_s` a layer, `sequence_s` a request in it, `allreduce_s` an allreduce of two
    cards, and `prefill_step_s` where it holds prompt tokens; such a step lasts `prefill_floor_s` at least,
    which the host needs to launch it. Bytes of an allreduce's message beyond 32 MiB move at
    `long_message_share` of the rate. A mixture-of-experts layer costs `moe_layer_s` more, or with quantized
    experts `quantized_moe_layer_s` and `quantized_moe_token_s` a token; of the experts that no token of a
    step chose, `idle_expert_share` are read all the same. A request costs `request_s` outside the engine's
    steps (HTTP, tokenizer, hand-over).
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
    quantized_moe_token_s: float = 3e-7
    allreduce_s: float = 10e-6
    sequence_s: float = 12e-6
    prefill_step_s: float = 1.2e-3
    request_s: float = 7e-3
    long_message_share: float = 1.0
    prefill_floor_s: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not _is_possible(field.name, value):
                raise KilocardError(f"coefficient {field.name} is {value}; give {_limit(field.name)}")

    @classmethod
    def needed(cls) -> list[str]:
        """The names that a file has to give: the last two are neutral unless something was found."""
        return [field.name for field in fields(cls) if field.name not in MAY_BE_LEFT_OUT]

    def with_(self, **changes: float) -> Self:
        """The same but for some."""
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as a calibration file holds them."""
        return asdict(self)


def _is_possible(name: str, value: float) -> bool:
    if name.endswith("_s"):
        return 0 <= value < MOST_TIME_S
    return (0 if name == "idle_expert_share" else LEAST_OF_A_RATE) <= value <= MOST_SHARE


def _limit(name: str) -> str:
    if name.endswith("_s"):
        return f"seconds from 0 to {MOST_TIME_S}"
    least = "0" if name == "idle_expert_share" else LEAST_OF_A_RATE
    return f"a share from {least} to {MOST_SHARE}"
