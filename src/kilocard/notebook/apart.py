"""Pools of prefill and decode beside cards that do both, rate by rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilocard.errors import KilocardError
from kilocard.fleet.apart import Served, highest_rate, served_apart, served_together
from kilocard.parallel.collective import Wire
from kilocard.parallel.fabric import fabric
from kilocard.specs import Case, case_from
from kilocard.specs.interconnect import Interconnect

CARD = "h100-sxm"
REQUESTS = 600
READERS = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """Four cards, one model, prompts of one length, answers of all."""

    model: str = "llama-3.1-8b"
    weights: str = "bf16"
    prompt_tokens: int = 3072
    answer_tokens: int = 256
    cards: int = 4

    def case(self, rate_per_s: float) -> Case:
        """The case at that rate, all cards together."""
        answers = {"kind": "lognormal", "mean_tokens": self.answer_tokens, "cv": 0.6}
        return case_from(
            {
                "model": self.model,
                "card": CARD,
                "weights": self.weights,
                "replicas": self.cards,
                "policy": "least-active",
                "workload": {
                    "requests": REQUESTS,
                    "rate_per_s": rate_per_s,
                    "prompt_tokens": self.prompt_tokens,
                    "output_tokens": {**answers, "most_tokens": 4 * self.answer_tokens},
                },
            }
        )


def wire_over(network: str) -> Wire:
    """The way from one machine's card to another's, as others measured it; two cards share what a machine has
    one of."""
    found = fabric(CARD, Interconnect(network=network, cards_per_node=READERS)).across
    if found is None:
        raise KilocardError(f"no rate is known for {network}")
    return found


def by_rate(asked: Asked, rates_per_s: Sequence[float], wire: Wire) -> dict[str, dict[float, Served]]:
    """All ways to use the cards, at each rate: together, and every split into two pools."""
    found = {"together": {rate: served_together(asked.case(rate)) for rate in rates_per_s}}
    for prefill in range(1, asked.cards):
        decode = asked.cards - prefill
        found[f"{prefill} read, {decode} write"] = {
            rate: served_apart(asked.case(rate), prefill, decode, wire) for rate in rates_per_s
        }
    return found


def sustained(served: Mapping[float, Served], ttft_s: float, tpot_s: float) -> float:
    """The highest rate at which nine of ten requests meet both limits and the wire keeps up; 0 where none."""
    shares = {rate: it.within(ttft_s, tpot_s) * (it.wire_busy <= 1) for rate, it in served.items()}
    return highest_rate(shares)
