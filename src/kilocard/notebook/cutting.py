"""A model on one rank and cut over two, on this box: measured, predicted, and broken on purpose."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import pandas as pd

from kilocard import facts
from kilocard.box import describe_box
from kilocard.ceilings import measure_ceilings
from kilocard.collectives import measure
from kilocard.errors import KilocardError
from kilocard.facts.parts import weights_bytes
from kilocard.launch import Engine, elsewhere
from kilocard.launch.engine import stop_all
from kilocard.launch.process import await_ready, begin
from kilocard.launch.replicas import most_ranks
from kilocard.load import sweep
from kilocard.notebook.measure import crowd
from kilocard.notebook.records import keep, kept, kept_file, place_of
from kilocard.record import Run
from kilocard.roofline.collective import ALLREDUCES_PER_LAYER, message_bytes
from kilocard.specs.engine import RANDOM_MODEL, EngineSpec
from kilocard.stats import summarise

DEGREES = (1, 2)
LEVELS = (1, 8)
PROMPT_TOKENS, ANSWER_TOKENS = 64, 32
READY_S = 600.0
SHARE_OF_CARD = 0.3
"""Both engines stand on the same card of a GPU box."""
LONG_ANSWER = 600
PREDICTION = "tensor-parallel-prediction.csv"
KILLED_AFTER_S = 2.0
GONE_WITHIN_S = 60.0


def can_cut() -> bool:
    """Whether this box can start an engine of two ranks: else the book's record is read."""
    return not elsewhere.named_urls() and most_ranks() >= max(DEGREES)


def start_cut(degrees: Sequence[int] = DEGREES) -> list[Engine]:
    """The same model on so many ranks each, begun together; an idle engine takes no core from another."""
    specs = [
        EngineSpec(
            model=RANDOM_MODEL,
            tensor_parallel_size=degree,
            max_model_len=2048,
            max_num_seqs=32,
            gpu_memory_utilization=SHARE_OF_CARD if describe_box()["gpus"] else None,
        )
        for degree in degrees
    ]
    began = time.monotonic()
    with ThreadPoolExecutor(len(specs)) as threads:
        begun = [threads.submit(begin, spec, stand_in=False) for spec in specs]
    engines = [future.result() for future in begun if not future.exception()]
    if failure := next(filter(None, (future.exception() for future in begun)), None):
        stop_all(engines)
        raise failure
    await_ready(engines, began, READY_S)
    return engines


def measured_cut(engine: Engine, seed: int = 0) -> Run:
    """One and eight at a time; kept for boxes that cannot cut."""
    run = sweep(
        engine.url,
        engine.model,
        concurrency=LEVELS,
        requests_per_level=lambda level: 2 * level if level > 1 else 3,
        prompt_tokens=PROMPT_TOKENS,
        output_tokens=ANSWER_TOKENS,
        seed=seed,
        stamp=engine.stamp_fields(),
    )
    keep(run, f"tensor-parallel-{engine.spec.tensor_parallel_size}")
    return run


def kept_cut(degree: int) -> Run:
    """What was measured on a box that can cut."""
    return kept(f"tensor-parallel-{degree}")


def tpot_ms(run: Run) -> dict[int, float]:
    """Median TPOT by level, in ms; of few requests too, for nothing is read from their tail."""
    levels = {summary.stage: summary.concurrency for summary in summarise(run)}
    rows = run.ok
    each = (rows["last_token_s"] - rows["first_token_s"]) / (rows["output_tokens"] - 1)
    return {int(levels[stage] or 0): float(each[rows["stage"] == stage].median()) * 1e3 for stage in levels}


def tokens_per_s(run: Run) -> dict[int, float]:
    """Output tokens a second by level."""
    return {int(level.concurrency or 0): float(level.output_tokens_per_s or 0) for level in summarise(run)}


@dataclass(frozen=True, slots=True)
class CutPrediction:
    """TPOT of the model cut in two, in ms: if everything halves, and if only the reading of weights does."""

    least_ms: float
    most_ms: float
    allreduces_ms: float
    read_ms: float

    @property
    def band(self) -> str:
        """Both ends, as a table shows them."""
        return f"{self.least_ms:.0f} to {self.most_ms:.0f}"


def predicted_cut(run: Run, model: str = RANDOM_MODEL) -> Mapping[int, CutPrediction]:
    """From one rank's TPOT at each level, this box's rates of reading, and its own allreduce.

    most = TPOT − weights / rate of one core + weights / rate of two cores + allreduces, where neither the
    attention nor the engine's own work gets shorter; least = half of it all, and the allreduces. A box that
    cannot cut reads what was predicted on the box of the record.
    """
    if not can_cut():
        rows = pd.read_csv(kept_file(PREDICTION)).itertuples(index=False)
        return {int(level): CutPrediction(*map(float, ms)) for level, *ms in rows}
    asked = facts.model(model)
    size = weights_bytes(asked, facts.WeightDtype.BF16)
    alone_ms = size / measure_ceilings(threads=1).read_bytes_per_s * 1e3
    together_ms = size / measure_ceilings(threads=2).read_bytes_per_s * 1e3
    found = {}
    for level, tpot in tpot_ms(run).items():
        talk_ms = _allreduces_ms(model, level)
        most_ms = tpot - alone_ms + together_ms + talk_ms
        found[level] = CutPrediction(tpot / 2 + talk_ms, most_ms, talk_ms, alone_ms)
    table = pd.DataFrame([{"level": level, **asdict(it)} for level, it in found.items()])
    table.round(3).to_csv(place_of(run, PREDICTION), index=False)
    return found


def _allreduces_ms(model: str, tokens: int) -> float:
    """What a step of so many tokens would spend with gloo between two processes: more than vLLM's kernel."""
    asked = facts.model(model)
    took = measure(2, (message_bytes(asked, tokens),), budget_s=0.5).seconds[0]
    return ALLREDUCES_PER_LAYER * asked.layers * took * 1e3


@dataclass(frozen=True, slots=True)
class Death:
    """What happened after one rank was killed, in seconds since; `told` is what the engine's holder hears."""

    rank: str
    run: Run
    answered_s: float
    gone_s: float
    told: str


def kill_a_rank(engine: Engine, requests: int = 4) -> Death:
    """Kill the last rank while it writes long answers; how long until everybody knows."""
    rank, pid = sorted(engine.ranks().items())[-1]
    killed = threading.Event()
    at: list[float] = []

    def kill() -> None:
        at.append(time.monotonic())
        os.kill(pid, signal.SIGKILL)
        killed.set()

    timer = threading.Timer(KILLED_AFTER_S, kill)
    timer.start()
    try:
        run = crowd(engine, requests, prompt_tokens=PROMPT_TOKENS, output_tokens=LONG_ANSWER, sampled=False)
    finally:
        timer.join()
    answered_s = time.monotonic() - at[0]
    return Death(rank, run, answered_s, *_gone(engine, at[0]))


def _gone(engine: Engine, since: float) -> tuple[float, str]:
    """When the engine's own process has ended, and what is said of it."""
    while time.monotonic() - since < GONE_WITHIN_S:
        try:
            engine.raise_if_dead("died")
        except KilocardError as error:
            return time.monotonic() - since, str(error).split(" (exit code")[0]
        time.sleep(0.1)
    raise KilocardError(f"a rank was killed, and {engine.url} lives on after {GONE_WITHIN_S:.0f} s")
