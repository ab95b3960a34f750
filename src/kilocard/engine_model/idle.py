"""Engines as they are before the first request, from the settings that vLLM's flags would give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kilocard.engine_model.state import REPLICA, SLOT, Engines, Rows, Tables, new_replica, table
from kilocard.engine_model.step_time import COSTS_S, StepTime
from kilocard.errors import KilocardError
from kilocard.specs.case import EngineSettings


def idle_engines(
    count: int,
    settings: EngineSettings,
    step: StepTime,
    tables: Tables,
    *,
    kv_blocks: int,
    state_blocks: int = 0,
) -> Engines:
    """`count` engines alike; each holds `kv_blocks` blocks, of which a sequence's fixed state takes some."""
    costs = step.picoseconds()
    known = len(costs["base_ps"]) - 1
    if known < settings.max_num_batched_tokens:
        raise KilocardError(
            f"the step time is known up to {known} tokens, and max_num_batched_tokens is "
            f"{settings.max_num_batched_tokens}: make it for as many"
        )
    replicas = _replicas(count, settings, costs)
    replicas.kv_blocks, replicas.state_blocks = kv_blocks, state_blocks
    new_replica(replicas)
    base_ps = np.ascontiguousarray(costs["base_ps"][None, : settings.max_num_batched_tokens + 1])
    return Engines(replicas, table((count, settings.max_num_seqs), SLOT), base_ps, tables)


def _replicas(count: int, settings: EngineSettings, costs: dict[str, Any]) -> Rows:
    replicas = table(count, REPLICA)
    replicas.number = np.arange(count)
    replicas.max_num_seqs = settings.max_num_seqs
    replicas.max_num_batched_tokens = settings.max_num_batched_tokens
    replicas.block_tokens = settings.block_size
    replicas.lag = settings.async_scheduling
    replicas.waves = settings.static_batching
    replicas.by_priority = settings.scheduling_policy == "priority"
    replicas.prefix_caching = settings.enable_prefix_caching
    replicas.slow_permille = 1000
    for name in COSTS_S:
        in_ps = name.removesuffix("_s") + "_ps"
        replicas[in_ps] = costs[in_ps]
    return replicas
