"""A target: what a cluster shall serve, by which promise, on which cards, in which building."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.files import user_path
from kilocard.facts.yaml_rows import UNREADABLE, RowLoader, yaml_problem
from kilocard.specs.demand import Distribution, TokensOrDistribution
from kilocard.specs.interconnect import CARDS_PER_NODE
from kilocard.specs.numbers import Count, Number, Positive, Tokens, Whole
from kilocard.specs.slo import SLO
from kilocard.specs.text_file import read_short
from kilocard.specs.written import LONGEST_TOLD, Written

MOST_CARDS = 1_000_000
MOST_TOKENS_PER_S = 1e12
QUANTIZATION = {"bf16": None, "fp8": "fp8", "int4": "awq"}
"""How an engine is told to hold its weights, by their type."""

DRAWN = 100_000


class Offer(Written):
    """A card that may be taken: its price an hour, which only the user knows, how many there are, and what
    it draws where the facts do not say."""

    card: str
    price_per_hour: Annotated[Number, Field(ge=0)] | None = None
    most: Annotated[Count, Field(le=MOST_CARDS)] = MOST_CARDS
    watts: Positive | None = None

    @field_validator("card")
    @classmethod
    def _is_known(cls, name: str) -> str:
        return facts.card(name).id


class Asked(Written):
    """Output tokens a second to serve at the peak, or requests a second."""

    output_tokens_per_s: Annotated[Positive, Field(le=MOST_TOKENS_PER_S)] | None = None
    requests_per_s: Annotated[Positive, Field(le=MOST_TOKENS_PER_S)] | None = None
    arrivals_cv: Annotated[Positive, Field(le=20)] = 1.0

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.output_tokens_per_s is None) == (self.requests_per_s is None):
            raise ValueError("traffic is output_tokens_per_s or requests_per_s: give one of them")
        return self


class Failures(Written):
    """How often a card fails and how long it is away.

    Llama 3's training on 16,384 H100s saw 419 unexpected interruptions in 54 days (arXiv:2407.21783, section
    3.3.4): one in 50,677 hours a card. How long a repair takes is the user's to say.
    """

    card_hours: Positive = 50_677.0
    repair_h: Positive = 24.0


class Building(Written):
    """So many nodes of `cards_per_node`, in racks, under switches, in power domains, filled in turn."""

    nodes: Annotated[Count, Field(le=MOST_CARDS)]
    cards_per_node: Annotated[Count, Field(le=1024)] = CARDS_PER_NODE
    racks: Annotated[Count, Field(le=MOST_CARDS)] = 1
    switches: Annotated[Count, Field(le=MOST_CARDS)] = 1
    power_domains: Annotated[Count, Field(le=MOST_CARDS)] = 1
    rack_share: Annotated[Number, Field(gt=0, le=1)] | None = None
    power_share: Annotated[Number, Field(gt=0, le=1)] | None = None
    """The most of a pool that may stand in one rack, in one power domain."""

    elsewhere: ClassVar[Mapping[str, str]] = {"cards": "give nodes, and cards_per_node"}

    @model_validator(mode="after")
    def _none_is_empty(self) -> Self:
        for name in ("racks", "switches", "power_domains"):
            if getattr(self, name) > self.nodes:
                raise ValueError(f"{getattr(self, name)} {name} for {self.nodes} nodes: some would be empty")
        return self

    @property
    def cards(self) -> int:
        """All there are."""
        return self.nodes * self.cards_per_node


class Proposal(Written):
    """Somebody's multiplication, to be held against the plan: so many replicas of so many cards, each of
    which gives so many tokens a second."""

    name: str = Field(min_length=1, max_length=80)
    replicas: Annotated[Count, Field(le=MOST_CARDS)]
    cards_each: Annotated[Count, Field(le=1024)] = 1
    tokens_per_s_each: Positive

    @property
    def cards(self) -> int:
        """All of them."""
        return self.replicas * self.cards_each


class Target(Written):
    """What is to be served. `headroom` is what the plan holds beyond the target; `availability` the share of
    the time in which the target has to be met, whatever has failed; `variance` how unequal equal cards
    are."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "output_tokens_per_s": "it stands in traffic",
        "rate_per_s": "write traffic: {requests_per_s: 50}",
        "card": "write cards: [{card: h100-sxm, price_per_hour: 3}]",
    }

    model: str = Field(min_length=1)
    weights: tuple[str, ...] = Field(default=("bf16",), min_length=1)
    cards: tuple[Offer, ...] = Field(min_length=1, max_length=32)
    traffic: Asked
    prompt_tokens: TokensOrDistribution
    output_tokens: TokensOrDistribution
    slo: SLO
    headroom: Annotated[Number, Field(ge=0, le=10)] = 0.25
    availability: Annotated[Number, Field(gt=0, lt=1)] = 0.999
    failures: Failures = Failures()
    variance: Annotated[Number, Field(ge=0, le=0.5)] = 0.02
    degrees: tuple[Annotated[Count, Field(le=64)], ...] | None = None
    policies: tuple[str, ...] = ("least-delay",)
    max_model_len: Tokens | None = None
    site: Building | None = None
    proposals: tuple[Proposal, ...] = Field(default=(), max_length=16)
    seed: Annotated[Whole, Field(ge=0, lt=2**32)] = 0

    @model_validator(mode="before")
    @classmethod
    def _one_may_stand_alone(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping) and isinstance(raw.get("weights"), str):
            raw = {**raw, "weights": [raw["weights"]]}
        return raw

    @field_validator("model")
    @classmethod
    def _is_known(cls, name: str) -> str:
        return facts.model(name).id

    @field_validator("weights")
    @classmethod
    def _can_be_served(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in names if name not in QUANTIZATION]:
            raise ValueError(f"weights {unknown[0]} are not planned with: use {', '.join(QUANTIZATION)}")
        return names

    @property
    def prompt_mean(self) -> float:
        """Tokens of a prompt, in the mean."""
        return mean_tokens(self.prompt_tokens)

    @property
    def output_mean(self) -> float:
        """Tokens of an answer, in the mean."""
        return mean_tokens(self.output_tokens)

    @property
    def requests_per_s(self) -> float:
        """At the peak."""
        return self.traffic.requests_per_s or (self.traffic.output_tokens_per_s or 0) / self.output_mean

    @property
    def output_tokens_per_s(self) -> float:
        """At the peak."""
        return self.traffic.output_tokens_per_s or (self.traffic.requests_per_s or 0) * self.output_mean


def mean_tokens(given: int | Distribution) -> float:
    """Of a number, or of a distribution that is cut off where nobody has written down its mean."""
    if isinstance(given, int):
        return float(given)
    return float(given.lengths().draw(DRAWN, np.random.default_rng(0)).mean())


def read_target(path: Path | str) -> Target:
    """A target from a YAML file."""
    place = user_path(path)
    try:
        raw = yaml.load(read_short(place), Loader=RowLoader)
    except (KilocardError, *UNREADABLE) as error:
        raise KilocardError(f"cannot read the target {path}: {yaml_problem(error)}") from error
    if not isinstance(raw, dict):
        raise KilocardError(f"{path} is no target: it needs at least model, cards, traffic, lengths and slo")
    return target_from(raw, str(path))


def target_from(raw: Mapping[str, Any], name: str = "the target") -> Target:
    """A target from plain values."""
    try:
        return Target.model_validate(raw)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part)[:LONGEST_TOLD] for part in fault["loc"])
        told = fault["msg"].removeprefix("Value error, ")
        raise KilocardError(f"{name}: {where + ': ' if where else ''}{told}") from error
