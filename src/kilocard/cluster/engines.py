"""The engines of a cluster file: of every pool its own kind, and places for those that may be added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.calibration import Calibration, calibration_of_case
from kilocard.engine_model.idle import idle_engines
from kilocard.engine_model.state import SLOT, Engines, Tables, table
from kilocard.engine_model.step_time import COSTS_S
from kilocard.errors import KilocardError
from kilocard.fleet.build import case_step_time, kv_blocks, state_blocks
from kilocard.fleet.room import require_room_for_slots
from kilocard.launch.stand_in import stand_in_case
from kilocard.specs.case import Case, case_from
from kilocard.specs.cluster import ClusterSpec, Pool
from kilocard.specs.demand import NO_LOAD
from kilocard.specs.engine import EngineSpec

SAME = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "gpu_memory_utilization",
    "block_size",
    "enable_prefix_caching",
)
"""Settings that an engine and its model have in common."""

WEIGHTS = {"fp8": "fp8", "awq": "int4", "awq_marlin": "int4", "gptq": "int4", "gptq_marlin": "int4"}
"""How vLLM's `quantization` stores a weight."""
KV = {"auto": "bf16", "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bfloat16": "bf16"}


@dataclass(frozen=True, slots=True)
class Fleet:
    """By engine: its pool, its whole cap, its name, whether it serves at the start; `begins` of pools, the
    case that each pool's engines are, and its calibration."""

    begins: NDArray[np.int64]
    pool: NDArray[np.int64]
    caps: NDArray[np.int64]
    names: tuple[str, ...]
    starts: NDArray[np.bool_]
    cases: tuple[Case, ...]
    calibrations: tuple[Calibration, ...]

    @property
    def request_s(self) -> float:
        """What a request takes beside the engine's steps."""
        return self.calibrations[0].coefficients.request_s


def case_of_engine(engine: EngineSpec, card: str | None, calibration: str | None = None) -> Case:
    """What an engine of a cluster file is to its model: on the card that is named; without one, the book's
    own box."""
    if card is None:
        return stand_in_case(engine)
    settings = {name: value for name in SAME if (value := getattr(engine, name)) is not None}
    model = engine.served_model_name or engine.model
    told = {"model": model, "card": card, "engine": settings, "workload": NO_LOAD.model_dump()}
    if engine.quantization in WEIGHTS:
        told["weights"] = WEIGHTS[engine.quantization]
    if calibration is not None:
        told["calibration"] = calibration
    told["kv"] = KV.get(engine.kv_cache_dtype, "bf16")
    return case_from(told, f"the engine of {model}")


def fleet_of(spec: ClusterSpec, calibration: str | None = None) -> Fleet:
    """Every engine that the file names, and those that its scaling may add."""
    counts = [len(pool.replicas) for pool in spec.pools]
    rooms = [
        max(count, pool.scaling.most if pool.scaling else 0)
        for count, pool in zip(counts, spec.pools, strict=True)
    ]
    for pool in spec.pools:
        _require_own(pool)
    cases = tuple(case_of_engine(spec.engine_of(pool), pool.card, calibration) for pool in spec.pools)
    for pool, case in zip(spec.pools, cases, strict=True):
        _require_one_rank_group(pool, case)
    begins = np.concatenate([[0], np.cumsum(rooms)]).astype(np.int64)
    return Fleet(
        begins=begins,
        pool=np.repeat(np.arange(len(rooms)), rooms),
        caps=np.concatenate([_caps(pool, room) for pool, room in zip(spec.pools, rooms, strict=True)]),
        names=tuple(
            pool.replicas[k].id if k < count else f"{pool.name}-{k}"
            for pool, count, room in zip(spec.pools, counts, rooms, strict=True)
            for k in range(room)
        ),
        starts=np.concatenate([np.arange(room) < count for count, room in zip(counts, rooms, strict=True)]),
        cases=cases,
        calibrations=tuple(map(calibration_of_case, cases)),
    )


def _caps(pool: Pool, room: int) -> NDArray[np.int64]:
    caps = [pool.cap_of(replica) for replica in pool.replicas]
    return np.array(caps + [pool.cap] * (room - len(caps)), np.int64)


def _require_own(pool: Pool) -> None:
    if pool.discovery is not None:
        raise KilocardError(
            f"the engines of pool {pool.name} are discovered, so nobody knows how many there are: write "
            "their number under replicas to simulate them"
        )


def _require_one_rank_group(pool: Pool, case: Case) -> None:
    for name in ("data_parallel_size", "pipeline_parallel_size"):
        if getattr(case.engine, name) > 1:
            raise KilocardError(
                f"pool {pool.name} has {name} {getattr(case.engine, name)}: a cluster is simulated with "
                "engines of tensor_parallel_size alone; for data parallel write more replicas"
            )


def make_engines(fleet: Fleet, tables: Tables) -> Engines:
    """All of them idle, in one table."""
    seats = max(case.engine.max_num_seqs for case in fleet.cases)
    widest = max(case.engine.max_num_batched_tokens for case in fleet.cases)
    require_room_for_slots(len(fleet.pool), seats)
    base_ps = np.zeros((len(fleet.cases), widest + 1), np.int64)
    rows = []
    for p, (case, found) in enumerate(zip(fleet.cases, fleet.calibrations, strict=True)):
        count = int(fleet.begins[p + 1] - fleet.begins[p])
        own = idle_engines(
            count,
            case.engine,
            case_step_time(case, found),
            tables,
            kv_blocks=kv_blocks(case),
            state_blocks=state_blocks(case),
        )
        base_ps[p, : own.base_ps.shape[1]] = own.base_ps[0]
        own.replicas.costs = p
        rows.append(own.replicas)
    replicas = np.concatenate(rows).view(np.recarray)
    replicas.number = np.arange(len(replicas))
    return Engines(replicas, table((len(replicas), seats), SLOT), base_ps, tables)


def slow_down(replica: Any, usual: Any, times: float) -> None:
    """From its next step on all that an engine does takes so many times as long as is usual."""
    replica.slow_permille = round(1000 * times)
    for name in COSTS_S:
        in_ps = name.removesuffix("_s") + "_ps"
        replica[in_ps] = round(int(usual[in_ps]) * times)
