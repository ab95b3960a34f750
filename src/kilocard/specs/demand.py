"""What a simulated cluster is asked: when, how much, and what its prompts share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, Discriminator, Field, Tag, model_validator

from kilocard.specs.numbers import Count, Number, Positive, Tokens, Whole
from kilocard.specs.written import Written
from kilocard.workload import Empirical, Fixed, HeavyTail, Lengths, LogNormal

MOST_REQUESTS = 50_000_000
MOST_SECONDS = 2_000_000
"""Of simulated time until the last request arrives: 23 days."""

MOST_SHARE = 1_000_000_000
"""Of a priority, beside the others."""

Requests = Annotated[Count, Field(le=MOST_REQUESTS)]
Priority = Annotated[Whole, Field(ge=-(2**31), lt=2**31)]
Share = Annotated[Positive, Field(le=MOST_SHARE)]


class Stage(Written):
    """A stretch of time at one rate, or on the way from it to `end_rate_per_s`; or requests at one
    concurrency (closed loop)."""

    rate_per_s: Positive | None = None
    end_rate_per_s: Positive | None = None
    duration_s: Annotated[Positive, Field(le=MOST_SECONDS)] | None = None
    concurrency: Requests | None = None
    requests: Requests | None = None

    @model_validator(mode="after")
    def _open_or_closed(self) -> Self:
        open_loop = self.rate_per_s is not None and (self.duration_s is not None) != (
            self.requests is not None
        )
        closed_loop = self.concurrency is not None and self.requests is not None
        if not (open_loop and self.concurrency is None) and not (
            closed_loop and self.rate_per_s is None and self.duration_s is None
        ):
            raise ValueError(
                "a stage is rate_per_s with duration_s or requests, or concurrency with requests"
            )
        if self.end_rate_per_s is not None and self.duration_s is None:
            raise ValueError("end_rate_per_s is reached after duration_s: give that, too")
        return self

    @property
    def expected_requests(self) -> float:
        """How many come, in the mean."""
        rates = (self.rate_per_s or 0.0, self.end_rate_per_s or self.rate_per_s or 0.0)
        return self.requests or sum(rates) / 2 * (self.duration_s or 0.0)


class Distribution(Written):
    """Token counts: lognormal (mean, cv, most), heavy_tail (least, alpha, most), or observed values."""

    kind: Literal["fixed", "lognormal", "heavy_tail", "empirical"]
    tokens: Tokens | None = None
    mean_tokens: Positive | None = None
    cv: Positive | None = None
    least_tokens: Tokens | None = None
    alpha: Positive | None = None
    most_tokens: Tokens | None = None
    observed_tokens: tuple[Tokens, ...] | None = None

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        missing = [name for name in self._needed() if getattr(self, name) is None]
        if missing:
            raise ValueError(f"a {self.kind} distribution needs {', '.join(missing)}")
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        if vain := given - {"kind", *self._needed()}:
            raise ValueError(f"a {self.kind} distribution has no {', '.join(sorted(vain))}: leave it out")
        return self

    def _needed(self) -> tuple[str, ...]:
        return {
            "fixed": ("tokens",),
            "lognormal": ("mean_tokens", "cv", "most_tokens"),
            "heavy_tail": ("least_tokens", "alpha", "most_tokens"),
            "empirical": ("observed_tokens",),
        }[self.kind]

    def lengths(self) -> Lengths:
        """The distribution to draw from."""
        kinds: dict[str, Any] = {
            "fixed": Fixed,
            "lognormal": LogNormal,
            "heavy_tail": HeavyTail,
            "empirical": Empirical,
        }
        drawn: Lengths = kinds[self.kind](*(getattr(self, name) for name in self._needed()))
        return drawn


def _form(value: Any) -> str:
    """Whether a value is written as keys or as a number, so that only the faults of that form are told."""
    return "as keys" if isinstance(value, Mapping | BaseModel) else "as number"


TokensOrDistribution = Annotated[
    Annotated[Tokens, Tag("as number")] | Annotated[Distribution, Tag("as keys")], Discriminator(_form)
]


class SystemPrompts(Written):
    """`count` system prompts of `tokens` tokens. With `users_each`, as many users share each, and a user
    always asks the same whole prompt (or, with `turns`, goes on with one conversation)."""

    count: Requests = 1
    tokens: Tokens
    users_each: Requests | None = None


class Turns(Written):
    """Conversations: `count` turns each, `think_s` between an answer and the next question; a turn's prompt
    is all that was said before and `prompt_tokens` more."""

    count: Requests
    think_s: Annotated[Number, Field(ge=0, le=MOST_SECONDS)] = 0.0


CountOrTurns = Annotated[
    Annotated[Requests, Tag("as number")] | Annotated[Turns, Tag("as keys")], Discriminator(_form)
]


class Demand(Written):
    """Stages, or requests at a rate, or a trace; lengths; what prompts share; priorities by share (0 goes
    first).

    `prompt_tokens` is the whole prompt, system prompt included. With `distinct_prompts`, whole prompts
    repeat in turn.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "rate": "did you mean 'rate_per_s'?",
        "concurrency": "write it as stages: [{concurrency: 4, requests: 100}]",
        "duration_s": "write it as stages: [{rate_per_s: 5, duration_s: 60}]",
    }

    stages: tuple[Stage, ...] | None = Field(default=None, min_length=1)
    requests: Requests | None = None
    rate_per_s: Positive | None = None
    trace: str | None = None
    arrivals: Literal["constant", "poisson", "gamma"] = "poisson"
    cv: Positive = 1.0
    prompt_tokens: TokensOrDistribution | None = None
    output_tokens: TokensOrDistribution | None = None
    system_prompts: SystemPrompts | None = None
    distinct_prompts: Requests | None = None
    turns: CountOrTurns | None = None
    priority: Annotated[dict[Priority, Share], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_way_to_ask(self) -> Self:
        ways = [
            self.stages is not None,
            self.requests is not None and self.rate_per_s is not None,
            self.trace is not None,
        ]
        if sum(ways) != 1 or (self.requests is None) != (self.rate_per_s is None):
            raise ValueError("give one of: stages; requests and rate_per_s; trace")
        if self.trace is None and (self.prompt_tokens is None or self.output_tokens is None):
            raise ValueError("prompt_tokens and output_tokens are needed unless a trace gives them")
        return self

    @model_validator(mode="after")
    def _nothing_is_said_in_vain(self) -> Self:
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        if self.trace is not None and (vain := given - {"trace", "priority"}):
            names = ", ".join(sorted(vain))
            raise ValueError(f"the trace gives arrivals, lengths and prefixes: leave out {names}")
        if self.turns is not None and self.distinct_prompts is not None:
            raise ValueError("distinct_prompts repeat whole prompts, which turns never do: leave one out")
        if self.is_closed_loop and self.turns is not None:
            raise ValueError("turns follow their answers anyhow: give the stages a rate_per_s")
        if self.stages and len({stage.concurrency is None for stage in self.stages}) > 1:
            raise ValueError("stages with a rate_per_s and with a concurrency do not mix: make two cases")
        if self.cv != 1 and self.arrivals != "gamma":
            raise ValueError(f"{self.arrivals} arrivals have no cv of {self.cv:g}: make them gamma")
        if self.is_closed_loop and self.arrivals != "poisson":
            raise ValueError(
                f"in a closed loop nothing arrives by itself: leave out arrivals {self.arrivals}"
            )
        if self.conversation.think_s and self.conversation.count == 1:
            raise ValueError("a conversation of one turn has no think_s: raise the count, or leave it out")
        return self

    @property
    def is_closed_loop(self) -> bool:
        """Whether requests come with answers: each stage then stands by itself."""
        return self.stages is not None and self.stages[0].concurrency is not None

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        """The stages; `requests` at a rate is one."""
        return self.stages or (Stage(rate_per_s=self.rate_per_s, requests=self.requests),)

    @property
    def conversation(self) -> Turns:
        """The turns; a lone number is of turns without a pause."""
        return self.turns if isinstance(self.turns, Turns) else Turns(count=self.turns or 1)


def lengths_of(asked: int | Distribution) -> Lengths:
    """A number or a distribution as lengths to draw from."""
    return asked.lengths() if isinstance(asked, Distribution) else Fixed(asked)


NO_LOAD = Demand(requests=1, rate_per_s=1, prompt_tokens=1, output_tokens=1)
"""For a case whose requests come from elsewhere: over HTTP, or from a load test."""
