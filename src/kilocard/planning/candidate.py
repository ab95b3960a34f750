"""One way to serve a target: a card, weights, a cut, settings, a policy; what bounds it, and its scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil
from typing import Any

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.layout import Judge, Load
from kilocard.parallel.layout import Layout
from kilocard.specs.scenario import Scenario, scenario_from
from kilocard.specs.target import QUANTIZATION, Offer, Target

SEQUENCES = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512)
BUDGETS = (1024, 2048, 4096, 8192)
OFF = 1.12
"""How far the closed form may fall short of what is simulated: a bound has to be no less."""
WIDTHS = 16
"""Loads at which the closed form is asked: where prompts crowd a small budget, more at once give less."""
GATEWAY_PER_S = 300.0
"""Requests a second that one gateway process is planned for."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """`max_num_seqs` is also the gateway's cap; `max_num_batched_tokens` the budget of a step."""

    card: str
    weights: str
    tensor_parallel: int
    max_num_seqs: int
    max_num_batched_tokens: int
    policy: str = "least-delay"

    @property
    def label(self) -> str:
        """As a table names it."""
        return (
            f"{self.card} {self.weights} TP {self.tensor_parallel}, {self.max_num_seqs} at once, "
            f"{self.max_num_batched_tokens} tokens a step, {self.policy}"
        )


def candidates(target: Target, most_at_once: Mapping[str, int] | None = None) -> Iterator[Candidate]:
    """All of them: whatever can be cut and started; of a card that was measured no more requests at once than
    it was measured with."""
    for offer, weights in product(target.cards, target.weights):
        for degree in target.degrees or (1, 2, 4, 8):
            judge = judge_of(target, offer.card, weights)
            if judge.obstacle(degree) or not judge.account(Layout(degree)).max_concurrency:
                continue
            most = (most_at_once or {}).get(offer.card)
            widths = SEQUENCES if most is None else sorted({*(it for it in SEQUENCES if it < most), most})
            for seats, budget, policy in product(widths, BUDGETS, target.policies):
                if seats <= budget:
                    yield Candidate(offer.card, weights, degree, seats, budget, policy)


@lru_cache(maxsize=1024)
def judge_of(
    target: Target, card: str, weights: str, budget: int = 2048, calibration: str | None = None
) -> Judge:
    """What its engines are judged by in closed form, with the mean lengths."""
    return Judge(
        model=facts.model(target.model),
        card=facts.card(card),
        load=Load(max(1, round(target.prompt_mean)), max(1, round(target.output_mean))),
        weights=weights,
        max_num_batched_tokens=budget,
        calibration_file=calibration,
    )


@lru_cache(maxsize=100_000)
def most_tokens_per_s(target: Target, candidate: Candidate, calibration: str | None = None) -> float:
    """No replica of it gives more within the SLO: in closed form, as many requests at once as keep the mean
    within the limits of the P99; 0 where not even one does."""
    judge = judge_of(target, candidate.card, candidate.weights, candidate.max_num_batched_tokens, calibration)
    layout, slo = Layout(candidate.tensor_parallel), target.slo
    try:
        step = judge.step(layout)
    except KilocardError:
        return 0.0
    tpot_s = slo.tpot_p99_s * OFF if slo.tpot_p99_s else None
    ttft_s = slo.ttft_p99_s * OFF if slo.ttft_p99_s else None
    most = judge.most_within(layout, candidate.max_num_seqs, tpot_s, ttft_s)
    widths = {max(1, round(most * share / WIDTHS)) for share in range(1, WIDTHS + 1)} if most else set()
    return OFF * max((judge.speed(step, layout, width).output_tokens_per_s for width in widths), default=0.0)


def cards_for(target: Target, candidate: Candidate, tokens_per_s: float) -> int:
    """Cards of whole replicas that give the target's tokens a second, were each to give so many."""
    return candidate.tensor_parallel * ceil(target.output_tokens_per_s / tokens_per_s - 1e-9)


def price_of(offer: Offer) -> float:
    """Of a card's hour; where nobody gave one, a card costs a card."""
    return 1.0 if offer.price_per_hour is None else offer.price_per_hour


def scenario_for(
    target: Target,
    candidate: Candidate,
    replicas: int,
    requests_per_s: float,
    *,
    duration_s: float,
    seed: int = 0,
    calibration: str | None = None,
    gateway: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Scenario:
    """So many replicas of it at that rate; `gateway` goes before what is planned of one."""
    engine = {
        "tensor_parallel_size": candidate.tensor_parallel,
        "max_num_seqs": candidate.max_num_seqs,
        "max_num_batched_tokens": candidate.max_num_batched_tokens,
        "quantization": QUANTIZATION[candidate.weights],
        "max_model_len": target.max_model_len,
    }
    raw = {
        "cluster": {
            "name": "plan",
            "model": target.model,
            "slo": target.slo.model_dump(exclude_none=True),
            "pools": [
                {
                    "name": "chat",
                    "card": candidate.card,
                    "replicas": replicas,
                    "cap": candidate.max_num_seqs,
                    "engine": {name: value for name, value in engine.items() if value is not None},
                }
            ],
            "gateway": {
                "gateways": gateways_for(requests_per_s, replicas),
                "policy": candidate.policy,
                **(gateway or {}),
            },
        },
        "traffic": {
            "stages": [{"rate_per_s": requests_per_s, "duration_s": duration_s}],
            "prompt_tokens": _plain(target.prompt_tokens),
            "output_tokens": _plain(target.output_tokens),
            "arrivals": "poisson" if target.traffic.arrivals_cv == 1 else "gamma",
            "cv": target.traffic.arrivals_cv,
        },
        "variance": target.variance,
        "scale_by": "none",
        "seed": seed,
        "calibration": calibration,
    }
    return scenario_from({**raw, **changes}, "the plan")


def gateways_for(requests_per_s: float, replicas: int) -> int:
    """Two at least where there is more than one replica, and none has more to do than it is planned for."""
    return max(1 if replicas == 1 else 2, min(64, ceil(requests_per_s / GATEWAY_PER_S)))


def _plain(tokens: Any) -> Any:
    return tokens if isinstance(tokens, int) else tokens.model_dump(exclude_none=True)
