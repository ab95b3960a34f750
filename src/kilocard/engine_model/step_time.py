"""How long an engine's step lasts, from the roofline of its tokens and the coefficients of a calibration.

step = √(memory² + compute²) over the tokens in the step, where memory is the weights it reads and compute the
products it makes of them; plus KV and state read, attention of prompts, allreduces, and the engine's own
times. All that depends on the number of tokens is one table; the rest is linear in KV tokens, requests and
attended pairs, which is what lets a run of like steps be timed at once.

Of a pipeline this is the way of one batch through all stages, and the sends between them; as many batches as
there are stages are under way at once, each with its share of the seats and of the KV cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilocard import facts
from kilocard.engine_model.coefficients import Coefficients
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.errors import KilocardError
from kilocard.facts.card import Card
from kilocard.facts.dtypes import kv_dtype, weight_dtype
from kilocard.facts.model import Model
from kilocard.facts.parts import Role, parts
from kilocard.facts.sharding import check_tensor_parallel
from kilocard.parallel.fabric import Fabric, fabric
from kilocard.parallel.pipeline import stage_layers
from kilocard.roofline.collective import ALLREDUCES_PER_LAYER, message_bytes
from kilocard.roofline.peaks import peaks
from kilocard.roofline.terms import StepTerms, step_terms
from kilocard.specs.interconnect import Interconnect

SHARPNESS = 2
"""How near the sharper of memory and compute a step comes: 1 adds the two, infinity takes the larger.
Fitted (see calibrate)."""

MOST_STEP_S = 3600
COSTS_S = ("kv_token_s", "sequence_s", "prefill_step_s", "pair_s", "prefill_floor_s")
HANDED_ON = 2
"""Tensors of the hidden size that one stage of a pipeline sends the next: the activation and the residual."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step: `tokens_s[tokens]`, and what each KV token, request, pair and the presence of a
    prompt add; with a prompt it lasts `prefill_floor_s` at least."""

    tokens_s: Floats
    kv_token_s: float
    sequence_s: float
    prefill_step_s: float
    pair_s: float
    prefill_floor_s: float = 0.0

    def step_s(self, tokens: int, kv_tokens: float, sequences: int, pairs: float = 0.0) -> float:
        """One step; `pairs` counts query-key pairs of prompt tokens, 0 where all decode."""
        if not 1 <= tokens < len(self.tokens_s):
            raise KilocardError(f"a step of {tokens} tokens: the budget is {len(self.tokens_s) - 1}")
        prefill_s = self.prefill_step_s if pairs else 0.0
        linear_s = kv_tokens * self.kv_token_s + sequences * self.sequence_s + pairs * self.pair_s
        lasts_s = float(self.tokens_s[tokens]) + linear_s + prefill_s
        return max(lasts_s, self.prefill_floor_s) if pairs else lasts_s

    def picoseconds(self) -> dict[str, Any]:
        """The same in whole picoseconds, under the names of the replica table, and the table itself as
        `base_ps`."""
        whole = {
            name.removesuffix("_s") + "_ps": round(getattr(self, name) * PICOSECONDS) for name in COSTS_S
        }
        longest_s = float(self.tokens_s.max())
        if not longest_s <= MOST_STEP_S:
            raise KilocardError(
                f"a step of {len(self.tokens_s) - 1:,} tokens would take {longest_s:,.4g} s, and at most "
                f"{MOST_STEP_S:,} s are simulated: lower max_num_batched_tokens, or mend the calibration"
            )
        return whole | {"base_ps": np.rint(self.tokens_s * PICOSECONDS).astype(np.int64)}


def step_time(
    model: Model | str,
    card: Card | str,
    *,
    weights: str = "bf16",
    kv: str = "bf16",
    tp: int = 1,
    pp: int = 1,
    interconnect: Interconnect | None = None,
    max_num_batched_tokens: int = 2048,
    coefficients: Coefficients | None = None,
) -> StepTime:
    """The step time of one engine of `tp` × `pp` cards: for a pipeline, of one batch through all its stages.

    Raises KilocardError on an unknown name, a TP the model cannot be cut into, more stages than layers, or a
    rate that is unknown.
    """
    model, card, found = facts.model(model), facts.card(card), coefficients or Coefficients()
    weight, cache = weight_dtype(weights), kv_dtype(kv)
    tp = check_tensor_parallel(model, tp)
    terms, limits = step_terms(model, weight, cache, tp), peaks(card, weight)
    layers = stage_layers(model.layers, pp)
    tokens = np.arange(max_num_batched_tokens + 1, dtype=float)

    gathered = sum(part.bytes(weight, tp) for part in parts(model) if part.role is Role.EMBEDDING)
    touched = terms.weights_read(tokens)
    read = touched + found.idle_expert_share * (terms.shared_bytes + terms.expert_bytes - touched) - gathered
    memory_s = read / (limits.bytes_per_s * found.weights_efficiency)
    compute_s = tokens * _flop_s_per_token(terms, limits) / found.compute_efficiency
    roof_s = (memory_s**SHARPNESS + compute_s**SHARPNESS) ** (1 / SHARPNESS)
    per_byte_s = 1 / (limits.bytes_per_s * found.kv_efficiency)
    head_s = terms.head_flops_per_token / (limits.plain_flops_per_s * found.compute_efficiency)
    return StepTime(
        tokens_s=roof_s
        + _wires_s(model, card, tokens, tp, len(layers), interconnect, found)
        + _own_s(model, weight.quantized, tokens, found),
        kv_token_s=terms.kv_bytes_per_token * per_byte_s,
        sequence_s=found.sequence_s + 2 * terms.state_bytes_per_sequence * per_byte_s + head_s,
        prefill_step_s=found.prefill_step_s,
        pair_s=terms.prefill_attention_flops / (limits.plain_flops_per_s * found.attention_efficiency),
        prefill_floor_s=found.prefill_floor_s,
    )


def _flop_s_per_token(terms: StepTerms, limits: Any) -> float:
    quantized_s = terms.quantized_flops_per_token / limits.quantized_flops_per_s
    return (
        quantized_s + (terms.plain_flops_per_token + terms.state_flops_per_token) / limits.plain_flops_per_s
    )


def _own_s(model: Model, quantized: bool, tokens: Floats, found: Coefficients) -> Floats:
    """What the engine's own kernels and its host add: a step, a layer, a mixture of experts and its
    tokens."""
    moe_layers = model.moe.layers if model.moe else 0
    moe_s = moe_layers * (found.quantized_moe_layer_s if quantized else found.moe_layer_s)
    token_s = moe_layers * found.quantized_moe_token_s if quantized else 0.0
    return found.step_s + model.layers * found.layer_s + moe_s + tokens * token_s


def _wires_s(
    model: Model,
    card: Card,
    tokens: Floats,
    tp: int,
    pp: int,
    interconnect: Interconnect | None,
    found: Coefficients,
) -> Floats:
    """Two allreduces a layer within each stage, and a send between stages."""
    if tp == pp == 1:
        return np.zeros_like(tokens)
    wires = engine_fabric(card, found, interconnect)
    size = np.asarray(message_bytes(model, 1) * tokens)
    allreduces_s = ALLREDUCES_PER_LAYER * model.layers * wires.allreduce_s(size, tp)
    apart = tp * pp > wires.cards_per_node
    return allreduces_s + (pp - 1) * wires.send_s(HANDED_ON * size, between_machines=apart) * (pp > 1)


def engine_fabric(card: Card | str, found: Coefficients, interconnect: Interconnect | None = None) -> Fabric:
    """The wires as a calibrated engine reaches them."""
    return fabric(
        card,
        interconnect,
        start_s=found.allreduce_s,
        share=found.link_efficiency,
        long_share=found.long_message_share,
    )
