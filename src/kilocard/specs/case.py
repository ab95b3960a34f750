"""One simulation: a model on a card, an engine's settings, how many replicas, and what they are asked."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from kilocard.errors import KilocardError, near_match
from kilocard.facts.card import Card
from kilocard.facts.files import user_path
from kilocard.facts.source import Source
from kilocard.facts.yaml_rows import UNREADABLE, RowLoader, yaml_problem
from kilocard.specs.demand import Demand
from kilocard.specs.interconnect import Interconnect
from kilocard.specs.numbers import Count, Number, Positive, Sequences, Whole
from kilocard.specs.slo import SLO
from kilocard.specs.text_file import read_short
from kilocard.specs.written import LONGEST_TOLD, Written

MOST_REPLICAS = 100_000
MOST_STAGES = 64
MOST_STEP_TOKENS = 1_000_000
MOST_KV_BLOCKS = 1_000_000_000
MOST_BLOCK_TOKENS = 1_000_000
MOST_CONTEXT_TOKENS = 1_000_000_000
MOST_TIMES_SLOWER = 1000.0


LOADS = frozenset({"stages", "rate_per_s", "trace"})
"""Ways to ask, of which a demand has one."""

EngineNumber = Annotated[Whole, Field(ge=0)]
TimesSlower = Annotated[Number, Field(ge=0.001, le=MOST_TIMES_SLOWER)]
Replicas = Annotated[Count, Field(le=MOST_REPLICAS)]


class EngineSettings(Written):
    """An engine's settings in vLLM's names; None is vLLM's default, or what the ledger leaves for KV."""

    tensor_parallel_size: Count = 1
    pipeline_parallel_size: Annotated[Count, Field(le=MOST_STAGES)] = 1
    data_parallel_size: Replicas = 1
    max_num_seqs: Sequences = 256
    max_num_batched_tokens: Annotated[Count, Field(le=MOST_STEP_TOKENS)] = 2048
    max_model_len: Annotated[Count, Field(le=MOST_CONTEXT_TOKENS)] | None = None
    gpu_memory_utilization: Annotated[Positive, Field(le=1)] = 0.9
    block_size: Annotated[Count, Field(le=MOST_BLOCK_TOKENS)] = 16
    enable_prefix_caching: bool = True
    async_scheduling: bool = True
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    kv_blocks: Annotated[Count, Field(le=MOST_KV_BLOCKS)] | None = None
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


def _card_form(value: Any) -> str:
    """Whether a card is written as a row or as an id, so that only the faults of that form are told."""
    return "as row" if isinstance(value, Mapping | Card) else "as id"


CardOrId = Annotated[
    Annotated[str, Field(min_length=1), Tag("as id")] | Annotated[Card, Tag("as row")],
    Discriminator(_card_form),
]
FORM = "as "
"""How the tags of values that may be written in two ways begin: they are no keys of a file."""


class Case(Written):
    """One simulation. Rates are the whole cluster's."""

    model: str = Field(min_length=1)
    card: CardOrId
    """A card's id, or a whole row of facts of one that is in no catalogue."""
    weights: str = "bf16"
    kv: str = "bf16"
    engine: EngineSettings = EngineSettings()
    interconnect: Interconnect = Interconnect()
    replicas: Replicas = 1
    policy: str = "least-active"
    slow: dict[EngineNumber, TimesSlower] = Field(default={})
    """By an engine's number, as a run tells it: how many times as long its steps take."""
    cap: Sequences | None = None
    """The most requests in flight at an engine; the others wait at the gateway."""
    calibration: str | None = None
    workload: Demand
    slo: SLO | None = None
    seed: Annotated[Whole, Field(ge=0, lt=2**32)] = 0

    @model_validator(mode="after")
    def _engines_can_be_counted(self) -> Self:
        engines = self.replicas * self.engine.data_parallel_size * self.engine.pipeline_parallel_size
        if engines > MOST_REPLICAS:
            stages = self.engine.pipeline_parallel_size
            raise ValueError(
                f"replicas {self.replicas} x data_parallel_size {self.engine.data_parallel_size}"
                f"{f' x pipeline_parallel_size {stages}' if stages > 1 else ''} are {engines:,} engines: at "
                f"most {MOST_REPLICAS:,} are simulated, lower one of them"
            )
        if unknown := [r for r in self.slow if r >= engines]:
            raise ValueError(f"slow names engine {unknown[0]}, and there are 0 to {engines - 1}")
        return self


def read_case(path: Path | str, changes: Mapping[str, Any] | None = None) -> Case:
    """A case from a YAML file; a fault in one line that names the key and what it should be.

    `changes` go before what the file says, key by key. A relative `trace` is looked for beside the file.
    """
    place = user_path(path)
    try:
        raw = yaml.load(read_short(place), Loader=RowLoader)
    except (KilocardError, *UNREADABLE) as error:
        raise KilocardError(f"cannot read the case {path}: {yaml_problem(error)}") from error
    if not isinstance(raw, dict):
        raise KilocardError(f"{path} is no case: it needs at least the keys model, card and workload")
    return case_from(_changed(_placed(raw, place.parent), changes or {}), str(path))


def case_from(raw: Mapping[str, Any], name: str = "the case") -> Case:
    """A case from plain values."""
    try:
        return Case.model_validate(raw)
    except ValidationError as error:
        raise KilocardError(f"{name}: {_fault(error)}") from error


def settings_from(raw: Mapping[str, Any], name: str = "the settings") -> EngineSettings:
    """An engine's settings from plain values."""
    try:
        return EngineSettings.model_validate(raw)
    except ValidationError as error:
        raise KilocardError(f"{name}: {_fault(error)}") from error


def _fault(error: ValidationError) -> str:
    """What is wrong with a case: the first fault, and of keys that are missing all."""
    faults = error.errors()
    first = faults[0]
    if first["type"] == "missing":
        missing = [_where(fault["loc"]) for fault in faults if fault["type"] == "missing"]
        return f"{', '.join(missing)}: missing, and needed"
    if first["type"] == "unexpected_keyword_argument":
        row = Source if "source" in str(first["loc"][-2]) else Card
        hint = near_match(str(first["loc"][-1])[:LONGEST_TOLD], row.__dataclass_fields__)
        return f"{_where(first['loc'])}: unknown key: {hint}"
    told = f"{first['msg'].removeprefix('Value error, ')} (given: {reprlib.repr(first['input'])})"
    return f"{where}: {told}" if (where := _where(first["loc"])) else told


def _where(location: tuple[int | str, ...]) -> str:
    """The key of a file, from its top."""
    keys = (str(part)[:LONGEST_TOLD] for part in location if not str(part).startswith(FORM))
    return ".".join(keys)


def _placed(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The trace, which a file names as seen from its own folder."""
    workload = raw.get("workload")
    if not isinstance(workload, dict) or not isinstance(workload.get("trace"), str):
        return raw
    return {**raw, "workload": {**workload, "trace": str(folder / user_path(workload["trace"]))}}


def _changed(raw: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says, with other values for some keys."""
    inner = {
        key: _changed(_without_load(raw[key], value), _with_requests(value, raw[key]))
        for key, value in changes.items()
        if isinstance(value, Mapping) and isinstance(raw.get(key), Mapping)
    }
    return {**raw, **changes, **inner}


def _without_load(said: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a file says beside its load, where another load is given."""
    if not LOADS & given.keys():
        return said
    dropped = LOADS if "rate_per_s" in given else LOADS | {"requests"}
    return {key: value for key, value in said.items() if key not in dropped}


def _with_requests(given: Mapping[str, Any], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Stages that are given, each of as many requests as the file says where they say nothing."""
    if "stages" not in given or "requests" not in said:
        return given
    return {**given, "stages": [{"requests": said["requests"], **stage} for stage in given["stages"]]}
