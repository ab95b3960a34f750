"""One way to lay a model over cards: whether it fits, how fast it is, what its wires cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from kilocard import facts
from kilocard.engine_model.calibration import Calibration, calibration_for
from kilocard.engine_model.step_time import StepTime, engine_fabric, step_time
from kilocard.errors import KilocardError
from kilocard.facts.card import Card
from kilocard.facts.model import Model
from kilocard.facts.sharding import check_tensor_parallel
from kilocard.layout.speed import Load, Speed, speed_at
from kilocard.memory import Ledger, ledger
from kilocard.parallel.layout import Layout
from kilocard.roofline.collective import ALLREDUCES_PER_LAYER, message_bytes
from kilocard.specs.interconnect import Interconnect

MOST_SEQUENCES = 256
"""vLLM's own max_num_seqs on most cards."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout judged at so many requests, and with one; no speeds where it does not fit, or where a rate is
    `unknown`. `wires_s` is what the allreduces of such a decode step take."""

    layout: Layout
    account: Ledger
    holds: int
    speed: Speed | None = None
    alone: Speed | None = None
    wires_s: float = 0.0
    unknown: str = ""

    @property
    def output_tokens_per_s_per_card(self) -> float:
        """What each of its cards earns."""
        return self.speed.output_tokens_per_s / self.layout.cards_per_replica if self.speed else 0.0


@dataclass(frozen=True)
class Judge:
    """The model, the cards, the load: all that layouts are judged by."""

    model: Model
    card: Card
    load: Load
    interconnect: Interconnect = field(default_factory=Interconnect)
    weights: str = "bf16"
    kv: str = "bf16"
    max_num_batched_tokens: int = 2048
    gpu_memory_utilization: float = 0.9
    memory_gb: float | None = None
    calibration_file: str | None = None
    fitted: Calibration | None = None

    @cached_property
    def calibration(self) -> Calibration:
        """What was fitted, else as the file has it, or the card's."""
        return self.fitted or calibration_for(
            self.card, self.calibration_file, model=self.model.id, weights=self.weights
        )

    def judged(self, layout: Layout, concurrency: int | None = None) -> Candidate:
        """One layout at so many requests a replica, or at as many as it holds."""
        account = self.account(layout)
        holds = account.max_concurrency
        if not holds:
            return Candidate(layout, account, 0)
        try:
            step, seats = (
                self.step(layout),
                min(holds, concurrency or MOST_SEQUENCES, self.max_num_batched_tokens),
            )
        except KilocardError as error:
            return Candidate(layout, account, holds, unknown=str(error))
        return Candidate(
            layout=layout,
            account=account,
            holds=holds,
            speed=self.speed(step, layout, seats),
            alone=self.speed(step, layout, 1),
            wires_s=self.wires_s(layout, seats),
        )

    def with_weights(self, weights: str) -> Judge:
        """The same with other weights."""
        return replace(self, weights=weights)

    def of(self, model: str, weights: str) -> Judge:
        """The same for another model."""
        return replace(self, model=facts.model(model), weights=weights)

    def obstacle(self, degree: int) -> str:
        """Why the model cannot be cut into so many tensor-parallel shares; empty where it can."""
        try:
            check_tensor_parallel(self.model, degree)
        except KilocardError as error:
            return str(error).removeprefix(f"--tp {degree}: ")
        return ""

    def speed(self, step: StepTime, layout: Layout, concurrency: int) -> Speed:
        """A replica under so many requests."""
        request_s = self.calibration.coefficients.request_s
        return speed_at(step, self.load, concurrency, request_s=request_s, batches=layout.pipeline_parallel)

    def most_within(self, layout: Layout, most: int, tpot_s: float | None, ttft_s: float | None) -> int:
        """The most requests up to `most` that a replica serves within both limits; 0 where not even one."""
        step = self.step(layout)

        def within(concurrency: int) -> bool:
            speed = self.speed(step, layout, concurrency)
            return speed.tpot_s <= (tpot_s or speed.tpot_s) and speed.ttft_s <= (ttft_s or speed.ttft_s)

        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if within(middle) else (low, middle)
        return low

    def account(self, layout: Layout) -> Ledger:
        """The ledger of the fullest card with one request."""
        return ledger(
            self.model,
            self.card,
            weights=self.weights,
            kv=self.kv,
            context=self.load.tokens,
            concurrency=1,
            tp=layout.tensor_parallel,
            pp=layout.pipeline_parallel,
            max_num_batched_tokens=self.max_num_batched_tokens,
            gpu_memory_utilization=self.gpu_memory_utilization,
            memory_gb=self.memory_gb,
        )

    def step(self, layout: Layout) -> StepTime:
        """The step time of one replica, or of one batch of its pipeline."""
        return step_time(
            self.model,
            self.card,
            weights=self.weights,
            kv=self.kv,
            tp=layout.tensor_parallel,
            pp=layout.pipeline_parallel,
            interconnect=self.interconnect,
            max_num_batched_tokens=self.max_num_batched_tokens,
            coefficients=self.calibration.coefficients,
        )

    def wires_s(self, layout: Layout, tokens: int, network: str | None = None) -> float:
        """Seconds that the allreduces of a step of so many tokens take."""
        if layout.tensor_parallel == 1:
            return 0.0
        joined = self.interconnect.model_copy(update={"network": network} if network else {})
        wires = engine_fabric(self.card, self.calibration.coefficients, joined)
        allreduce_s = wires.allreduce_s(message_bytes(self.model, tokens), layout.tensor_parallel)
        return ALLREDUCES_PER_LAYER * self.model.layers * float(allreduce_s)
