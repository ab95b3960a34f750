"""One simulation: a model on a card, an engine's settings, how many replicas, and what they are asked."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from kilocard.errors import KilocardError
from kilocard.facts.card import Card
from kilocard.specs.demand import Demand
from kilocard.specs.slo import SLO

MOST_REPLICAS = 100_000
MOST_SEQUENCES = 65_536
MOST_STEP_TOKENS = 1_000_000
MOST_CHARACTERS = 2_000_000
"""Of a case file."""


class EngineSettings(BaseModel):
    """An engine's settings in vLLM's names; None is vLLM's default, or what the ledger leaves for KV."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tensor_parallel_size: PositiveInt = 1
    data_parallel_size: PositiveInt = 1
    max_num_seqs: Annotated[int, Field(gt=0, le=MOST_SEQUENCES)] = 256
    max_num_batched_tokens: Annotated[int, Field(gt=0, le=MOST_STEP_TOKENS)] = 2048
    max_model_len: PositiveInt | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    block_size: PositiveInt = 16
    enable_prefix_caching: bool = True
    async_scheduling: bool = True
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    kv_blocks: PositiveInt | None = None
    static_batching: bool = False
    """Not vLLM's: admit only when nobody runs, as engines did before continuous batching."""

    @model_validator(mode="after")
    def _a_step_holds_every_sequence(self) -> Self:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens {self.max_num_batched_tokens} is under max_num_seqs "
                f"{self.max_num_seqs}: a step must hold a token of each"
            )
        return self


class Case(BaseModel):
    """One simulation. Rates are the whole cluster's."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str = Field(min_length=1)
    card: Annotated[str, Field(min_length=1)] | Card
    """A card's id, or a whole row of facts of one that is in no catalogue."""
    weights: str = "bf16"
    kv: str = "bf16"
    engine: EngineSettings = EngineSettings()
    replicas: Annotated[int, Field(gt=0, le=MOST_REPLICAS)] = 1
    policy: str = "least-active"
    calibration: str | None = None
    workload: Demand
    slo: SLO | None = None
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


def read_case(path: Path | str, changes: Mapping[str, Any] | None = None) -> Case:
    """A case from a YAML file; a fault in one line that names the key and what it should be.

    `changes` go before what the file says, key by key.
    """
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            text = file.read(MOST_CHARACTERS + 1)
        if len(text) > MOST_CHARACTERS:
            raise KilocardError(f"{path} is no case: it is longer than {MOST_CHARACTERS:,} characters")
        raw = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise KilocardError(f"cannot read the case {path}: {reason}") from error
    if not isinstance(raw, dict):
        raise KilocardError(f"{path} is no case: it needs at least the keys model, card and workload")
    return case_from(_changed(raw, changes or {}), str(path))


def case_from(raw: Mapping[str, Any], name: str = "the case") -> Case:
    """A case from plain values."""
    try:
        return Case.model_validate(raw)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the case"
        given = "" if fault["type"] == "missing" else f" (given: {reprlib.repr(fault['input'])})"
        raise KilocardError(
            f"{name}: {where}: {fault['msg'].removeprefix('Value error, ')}{given}"
        ) from error


def _changed(raw: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says, with other values for some keys."""
    inner = {
        key: _changed(raw[key], value)
        for key, value in changes.items()
        if isinstance(value, Mapping) and isinstance(raw.get(key), Mapping)
    }
    return {**raw, **changes, **inner}
