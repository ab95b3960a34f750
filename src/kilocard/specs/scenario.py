"""A scenario: a cluster file, what it is asked, where it stands, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from kilocard.errors import KilocardError
from kilocard.facts.files import user_path
from kilocard.facts.yaml_rows import UNREADABLE, RowLoader, yaml_problem
from kilocard.specs.cluster import CLASSES, ClusterSpec, cluster_from, read_cluster
from kilocard.specs.demand import MOST_SECONDS, Demand
from kilocard.specs.numbers import Count, Number, Positive, Seconds, Whole
from kilocard.specs.text_file import read_short
from kilocard.specs.written import LONGEST_TOLD, Written

MOST_FLOWS, MOST_FAULTS, MOST_CHANGES = 64, 10_000, 1000
MOST_TIMES = 1000.0
MOST_UNITS = 100_000

AtS = Annotated[Number, Field(ge=0, le=MOST_SECONDS)]
Number0 = Annotated[Whole, Field(ge=0, le=MOST_UNITS)]
Times = Annotated[Number, Field(ge=0.01, le=MOST_TIMES)]

PLACES = ("replica", "node", "rack", "domain", "switch", "gateway")
WHERE: dict[str, tuple[str, ...]] = {
    "crash": ("replica", "node"),
    "hang": ("replica", "node"),
    "slow": ("replica", "node", "rack"),
    "power": ("node", "rack", "domain"),
    "cut": ("node", "rack", "switch"),
    "gateway": ("gateway",),
    "metrics": ("gateway",),
}
"""What each kind of fault can befall."""


class Flow(Demand):
    """Requests of one kind: for a model of the cluster, with images or without. Their `priority` are shares
    of the gateway's classes by rank: 0 interactive, 1 async, 2 batch."""

    model: str | None = None
    images: bool = False

    @model_validator(mode="after")
    def _a_gateway_can_take_it(self) -> Self:
        if self.is_closed_loop:
            raise ValueError("a cluster's clients come by themselves: give stages a rate_per_s")
        for rank in self.priority or {}:
            if not 0 <= rank < len(CLASSES):
                raise ValueError(f"priority {rank} is none of 0 (interactive), 1 (async) and 2 (batch)")
        return self


class Fault(Written):
    """From `at_s` on, for `for_s` where it ends by itself.

    crash: processes die, and are started anew. hang: they say nothing more, and nobody is told. slow: steps
    take `times` as long. power: machines go dark and come back. cut: machines are not reached. gateway: it
    dies. metrics: a gateway hears none. With `every_s` it comes again, `repeats` times in all: flapping.
    """

    kind: Literal["crash", "hang", "slow", "power", "cut", "gateway", "metrics"]
    at_s: AtS
    for_s: Seconds | None = None
    replica: str | None = None
    node: Number0 | None = None
    rack: Number0 | None = None
    domain: Number0 | None = None
    switch: Number0 | None = None
    gateway: Number0 | None = None
    times: Times = 5.0
    every_s: Seconds | None = None
    repeats: Annotated[Count, Field(le=1000)] = 1

    @model_validator(mode="after")
    def _it_befalls_one_thing(self) -> Self:
        named = [place for place in PLACES if getattr(self, place) is not None]
        allowed = WHERE[self.kind]
        if len(named) != 1 or named[0] not in allowed:
            given = ", ".join(named) or "nothing"
            raise ValueError(f"a fault {self.kind} befalls one of {', '.join(allowed)}; given: {given}")
        if self.kind in ("power", "cut", "gateway", "metrics") and self.for_s is None:
            raise ValueError(f"a fault {self.kind} lasts: give for_s")
        if (self.repeats > 1) != (self.every_s is not None):
            raise ValueError("what comes again needs both every_s and repeats over 1")
        return self

    @property
    def place(self) -> tuple[str, str | int]:
        """What it befalls."""
        name = next(place for place in PLACES if getattr(self, place) is not None)
        return name, getattr(self, name)


class Changed(Written):
    """A new version of a pool's engines is rolled out: what it takes for a step is `times` what the old one
    takes. `restart` instead starts the same ones anew."""

    at_s: AtS
    pool: str
    version: str = "next"
    times: Times = 1.0
    restart: bool = False


class Site(Written):
    """Where machines stand, filled in the file's order: a rack of so many nodes, a switch over so many, a
    power domain of so many racks."""

    nodes_per_rack: Annotated[Count, Field(le=1000)] = 4
    nodes_per_switch: Annotated[Count, Field(le=1000)] = 4
    racks_per_domain: Annotated[Count, Field(le=1000)] = 4


class Storage(Written):
    """What a starting engine waits for: `boot_s` of its own, then its weights, of which the store gives
    `gb_per_s` to all starters together and `node_gb_per_s` to each."""

    boot_s: Seconds = 30.0
    gb_per_s: Annotated[Positive, Field(le=1e6)] = 40.0
    node_gb_per_s: Annotated[Positive, Field(le=1e6)] = 3.0


class Scenario(Written):
    """One simulation of a cluster. `variance` is the coefficient of variation of its engines' speed: equal
    cards are not equal. `scale_by` says who adds and removes engines where the file has `scaling`."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "workload": "it is called traffic: a list of flows, or one",
        "policy": "it stands in the cluster file: gateway.policy",
        "slo": "it stands in the cluster file",
    }

    cluster: ClusterSpec
    traffic: tuple[Flow, ...] = Field(min_length=1, max_length=MOST_FLOWS)
    faults: tuple[Fault, ...] = Field(default=(), max_length=MOST_FAULTS)
    changes: tuple[Changed, ...] = Field(default=(), max_length=MOST_CHANGES)
    site: Site = Site()
    storage: Storage = Storage()
    variance: Annotated[Number, Field(ge=0, le=1)] = 0.0
    scale_by: Literal["none", "use", "rate", "forecast"] = "use"
    begins_at_minute: Annotated[Whole, Field(ge=0, lt=24 * 60)] = 0
    sample_s: Annotated[Seconds, Field(ge=0.1)] = 60.0
    calibration: str | None = None
    """A file that `kilocard calibrate` wrote; without one, what is shipped for each card."""
    seed: Annotated[Whole, Field(ge=0, lt=2**32)] = 0

    @model_validator(mode="before")
    @classmethod
    def _one_flow_may_stand_alone(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping) and isinstance(raw.get("traffic"), Mapping):
            raw = {**raw, "traffic": [raw["traffic"]]}
        return raw

    @model_validator(mode="after")
    def _it_is_of_this_cluster(self) -> Self:
        models = self.cluster.models
        for flow in self.traffic:
            if flow.model is not None and flow.model not in models:
                raise ValueError(f"traffic asks for {flow.model}, and the cluster serves {', '.join(models)}")
        pools = [pool.name for pool in self.cluster.pools]
        for change in self.changes:
            if change.pool not in pools:
                raise ValueError(f"changes name pool {change.pool}, and there are {', '.join(pools)}")
        return self


def read_scenario(path: Path | str) -> Scenario:
    """A scenario from a YAML file, whose cluster is a file's name, seen from its own folder, or stands in
    it."""
    place = user_path(path)
    try:
        raw = yaml.load(read_short(place), Loader=RowLoader)
    except (KilocardError, *UNREADABLE) as error:
        raise KilocardError(f"cannot read the scenario {path}: {yaml_problem(error)}") from error
    if not isinstance(raw, dict) or "cluster" not in raw:
        raise KilocardError(f"{path} is no scenario: it needs the keys cluster and traffic")
    return scenario_from(raw, str(path), place.parent)


def scenario_from(raw: Mapping[str, Any], name: str = "the scenario", folder: Path = Path()) -> Scenario:
    """A scenario from plain values."""
    cluster = raw.get("cluster")
    if isinstance(cluster, str):
        raw = {**raw, "cluster": read_cluster(folder / user_path(cluster))}
    elif isinstance(cluster, Mapping):
        raw = {**raw, "cluster": cluster_from(cluster, f"{name}: cluster")}
    try:
        return Scenario.model_validate(_with_calibration(_with_traces(raw, folder), folder))
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part)[:LONGEST_TOLD] for part in fault["loc"])
        told = fault["msg"].removeprefix("Value error, ")
        raise KilocardError(f"{name}: {where + ': ' if where else ''}{told}") from error


def _with_traces(raw: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Traces are looked for beside the file."""
    told = raw.get("traffic")
    flows = told if isinstance(told, list) else [told]
    placed = [
        {**flow, "trace": str(folder / user_path(flow["trace"]))}
        if isinstance(flow, Mapping) and isinstance(flow.get("trace"), str)
        else flow
        for flow in flows
    ]
    return {**raw, "traffic": placed} if told is not None else raw


def _with_calibration(raw: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """It is looked for beside the file, too."""
    told = raw.get("calibration")
    return {**raw, "calibration": str(folder / user_path(told))} if isinstance(told, str) else raw
