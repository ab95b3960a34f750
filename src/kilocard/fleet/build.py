"""A case and its traffic as the tables that the simulation's loop works on."""

from __future__ import annotations

from typing import Any

import numpy as np

from kilocard import facts
from kilocard.engine_model.calibration import Calibration
from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS
from kilocard.engine_model.idle import idle_engines
from kilocard.engine_model.state import PATH, Engines, Tables, new_entries, new_requests, table
from kilocard.engine_model.step_time import COSTS_S, StepTime, step_time
from kilocard.errors import KilocardError
from kilocard.fleet.loop import Agenda, new_agenda
from kilocard.fleet.room import require_room_for_slots
from kilocard.fleet.traffic import NOBODY, Traffic
from kilocard.memory import ledger
from kilocard.specs.case import Case, EngineSettings
from kilocard.specs.demand import MOST_SECONDS

FEW_ENTRIES = 1024


def case_step_time(case: Case, calibration: Calibration) -> StepTime:
    """The step time of the case's engine."""
    return step_time(
        case.model,
        case.card,
        weights=case.weights,
        kv=case.kv,
        tp=case.engine.tensor_parallel_size,
        pp=case.engine.pipeline_parallel_size,
        interconnect=case.interconnect,
        max_num_batched_tokens=case.engine.max_num_batched_tokens,
        coefficients=calibration.coefficients,
    )


def kv_blocks(case: Case) -> int:
    """Blocks of an engine's KV cache: as given, or what the ledger leaves beside weights and activations."""
    engine = case.engine
    if engine.kv_blocks is not None:
        return engine.kv_blocks
    book = ledger(
        case.model,
        case.card,
        weights=case.weights,
        kv=case.kv,
        context=1,
        concurrency=1,
        tp=engine.tensor_parallel_size,
        pp=engine.pipeline_parallel_size,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        gpu_memory_utilization=engine.gpu_memory_utilization,
    )
    blocks = book.max_kv_tokens // engine.block_size
    if blocks < 1 <= book.max_kv_tokens:
        raise KilocardError(
            f"a block of block_size {engine.block_size} tokens is larger than the whole KV cache of "
            f"{book.max_kv_tokens} tokens: lower block_size, 16 is vLLM's"
        )
    if blocks < 1:
        cards = engine.tensor_parallel_size * engine.pipeline_parallel_size
        raise KilocardError(
            f"{case.model} in {case.weights} leaves no KV cache on {cards} x {case.card} "
            f"({book.total_bytes / 1e9:.1f} of {book.usable_bytes / 1e9:.1f} GB): "
            "quantize, or raise tensor_parallel_size"
        )
    return blocks


def build(
    case: Case, traffic: Traffic, calibration: Calibration, step: StepTime | None = None
) -> tuple[Engines, Agenda]:
    """Idle engines, and everything that is to happen to them.

    A pipeline stands here as one engine a stage: each serves the batch that is in its turn under way, with
    its share of seats and cache, and none is slowed where the batches are uneven.
    """
    _check_lengths(case, traffic)
    batches = case.engine.pipeline_parallel_size
    count = case.replicas * case.engine.data_parallel_size * batches
    each = _one_batch(case.engine)
    require_room_for_slots(count, each.max_num_seqs)
    requests = requests_of(traffic)
    paths = table(max(len(traffic.paths.streams), 1), PATH)
    paths.stream[: len(traffic.paths.streams)] = traffic.paths.streams
    paths.end_tokens[: len(traffic.paths.streams)] = traffic.paths.end_tokens
    engines = idle_engines(
        count,
        each,
        step or case_step_time(case, calibration),
        Tables(requests, paths, new_entries(FEW_ENTRIES + 4 * _most_names(each))),
        kv_blocks=kv_blocks(case) // batches,
        state_blocks=state_blocks(case),
    )
    for r, times in case.slow.items():
        _slow_down(engines.replicas[r], times)
    return engines, new_agenda(requests, len(engines.replicas), traffic.closed_loop)


def _slow_down(replica: Any, times: float) -> None:
    """All that a step of this engine takes, it takes so many times as long."""
    replica.slow_permille = round(1000 * times)
    for name in COSTS_S:
        in_ps = name.removesuffix("_s") + "_ps"
        replica[in_ps] = round(int(replica[in_ps]) * times)


def _one_batch(engine: EngineSettings) -> EngineSettings:
    """The settings of one of the batches that a pipeline has under way."""
    seats = max(1, engine.max_num_seqs // engine.pipeline_parallel_size)
    return engine.model_copy(update={"max_num_seqs": seats})


def _most_names(engine: EngineSettings) -> int:
    """How many streams one plan can give names to: the table of entries grows between two plans only."""
    return engine.max_num_batched_tokens // engine.block_size + 2 * engine.max_num_seqs


def state_blocks(case: Case) -> int:
    """The fixed state of a sequence (hybrid attention) in KV blocks: it comes out of the same memory."""
    model = facts.model(case.model)
    tp = case.engine.tensor_parallel_size
    block_bytes = model.kv_bytes_per_token(facts.KvDtype(case.kv), tp) * case.engine.block_size
    return -(-model.state_bytes_per_sequence(tp) // block_bytes)


def sequence_room(case: Case) -> int:
    """Tokens that the KV cache holds of one sequence beside its state; of a pipeline, a batch's share."""
    blocks, state = kv_blocks(case) // case.engine.pipeline_parallel_size, state_blocks(case)
    if blocks <= state:
        raise KilocardError(
            f"{blocks} KV blocks hold not even the state of one sequence of {case.model} and a token: raise "
            f"kv_blocks to {state + 1} or more, or use more cards"
        )
    return (blocks - state) * case.engine.block_size


def requests_of(traffic: Traffic) -> Any:
    """The traffic as the scheduler takes it."""
    last_s = traffic.arrival_s[np.isfinite(traffic.arrival_s)].max()
    if last_s > MOST_SECONDS:
        raise KilocardError(
            f"the last request arrives after {last_s:,.10g} s: at most {MOST_SECONDS:,} s are simulated; "
            "raise the rate, or ask for fewer requests"
        )
    requests = new_requests(len(traffic))
    waits = np.isinf(traffic.arrival_s)
    requests.arrival_ps = np.where(
        waits, NEVER_PS, np.rint(np.where(waits, 0, traffic.arrival_s) * PICOSECONDS)
    )
    requests.prompt = traffic.prompt_tokens
    requests.output = traffic.output_tokens
    requests.priority = traffic.priority
    requests.path_at = traffic.paths.starts
    requests.path_length = traffic.paths.lengths
    requests.gap_ps = np.rint(traffic.gap_s * PICOSECONDS)
    followers = np.nonzero(traffic.follows != NOBODY)[0]
    requests.successor[traffic.follows[followers]] = followers
    return requests


def _check_lengths(case: Case, traffic: Traffic) -> None:
    """Refuse what the engine would refuse, or what no cache of that size can ever hold."""
    engine: EngineSettings = case.engine
    longest = int((traffic.prompt_tokens + traffic.output_tokens).max())
    limit = engine.max_model_len or facts.model(case.model).max_context_tokens
    if limit and longest > limit:
        raise KilocardError(
            f"a request of {longest} tokens is over the context of {limit}: shorten it, or raise "
            "max_model_len"
        )
    room = sequence_room(case)
    if longest > room:
        raise KilocardError(
            f"a request of {longest} tokens never fits into a KV cache of {room}: shorten it, or use more "
            "cards"
        )
