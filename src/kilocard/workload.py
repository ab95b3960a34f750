"""What is asked of an engine: when requests arrive, how long they are, and what their prompts share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kilocard.errors import KilocardError

Process = Literal["constant", "poisson", "gamma"]

FIRST_TOKEN_ID = 1000
"""Below it tokenizers keep their control tokens and single bytes."""

MOST_TOKENS = 2**24
MOST_REQUESTS = 1_000_000
"""Of one stage: a run is held in memory."""

RATES_PER_S = (1e-6, 1e6)
SPREADS = (1e-3, 1e3)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise KilocardError(message)


def _require_tokens(name: str, count: float) -> None:
    _require(
        1 <= count <= MOST_TOKENS,
        f"{name} of {count} tokens is not possible: use 1 to {MOST_TOKENS:,}",
    )


def _require_within(name: str, value: float, limits: tuple[float, float]) -> None:
    least, most = limits
    _require(least <= value <= most, f"{name} of {value} is not possible: use {least:g} to {most:g}")


class Lengths(Protocol):
    """A distribution of token counts."""

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """`count` lengths, each at least 1."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Every length the same."""

    tokens: int

    def __post_init__(self) -> None:
        _require_tokens("a length", self.tokens)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """`count` equal lengths."""
        return np.full(count, self.tokens, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Log-normal lengths with a given mean and coefficient of variation, clipped to [1, most]."""

    mean_tokens: float
    cv: float
    most_tokens: int

    def __post_init__(self) -> None:
        _require_tokens("a mean length", self.mean_tokens)
        _require_within("a cv (for equal lengths use Fixed)", self.cv, SPREADS)
        _require(self.most_tokens >= 1, f"most_tokens {self.most_tokens} is under 1")

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """sigma² = ln(1 + cv²), mu = ln(mean) − sigma²/2: the mean holds before clipping."""
        variance = np.log1p(self.cv**2)
        lengths = rng.lognormal(np.log(self.mean_tokens) - variance / 2, np.sqrt(variance), count)
        return np.clip(np.rint(lengths), 1, self.most_tokens).astype(np.int64)


@dataclass(frozen=True, slots=True)
class HeavyTail:
    """Pareto lengths of at least `least_tokens` with tail index `alpha`, clipped to `most_tokens`."""

    least_tokens: int
    alpha: float
    most_tokens: int

    def __post_init__(self) -> None:
        _require(
            1 <= self.least_tokens <= self.most_tokens, "a heavy tail needs 1 <= least_tokens <= most_tokens"
        )
        _require_within("an alpha", self.alpha, SPREADS)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """P(length > x) = (least / x)^alpha."""
        lengths = self.least_tokens * (1 + rng.pareto(self.alpha, count))
        return np.minimum(lengths, self.most_tokens).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Empirical:
    """Lengths drawn with replacement from observed ones."""

    observed_tokens: Sequence[int]

    def __post_init__(self) -> None:
        _require(
            len(self.observed_tokens) > 0, "an empirical distribution needs at least one observed length"
        )
        for tokens in (min(self.observed_tokens), max(self.observed_tokens)):
            _require_tokens("an observed length", tokens)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """`count` of the observed lengths."""
        return rng.choice(np.asarray(self.observed_tokens, dtype=np.int64), count)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Open-loop arrivals at a rate, or on a linear ramp from it to `end_rate_per_s` over `ramp_s`.

    Gaps of mean 1 (constant, exponential, or gamma with coefficient of variation `cv`) are summed and then
    mapped through the inverse of the integrated rate, so every process can follow every ramp.
    """

    rate_per_s: float
    process: Process = "poisson"
    cv: float = 1.0
    end_rate_per_s: float | None = None
    ramp_s: float | None = None

    def __post_init__(self) -> None:
        _require_within("a rate in requests/s", self.rate_per_s, RATES_PER_S)
        _require(
            self.process in ("constant", "poisson", "gamma"),
            f"unknown arrivals {self.process!r}: use constant, poisson or gamma",
        )
        _require_within("a cv (for equal gaps use the constant process)", self.cv, SPREADS)
        _require(
            (self.end_rate_per_s is None) == (self.ramp_s is None), "a ramp needs end_rate_per_s and ramp_s"
        )
        if self.end_rate_per_s is not None and self.ramp_s is not None:
            _require_within("an end rate in requests/s", self.end_rate_per_s, RATES_PER_S)
            _require(
                0 < self.ramp_s < inf, f"a ramp over {self.ramp_s} s is not possible: use a time above 0"
            )

    def times(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Seconds from the start of the stage, ascending, of `count` arrivals."""
        unit = np.cumsum(self._unit_gaps(count, rng))
        if self.end_rate_per_s is None or self.ramp_s is None:
            return unit / self.rate_per_s
        return _ramp_times(unit, self.rate_per_s, self.end_rate_per_s, self.ramp_s)

    def _unit_gaps(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        if self.process == "constant":
            return np.ones(count)
        if self.process == "poisson":
            return rng.exponential(1.0, count)
        shape = self.cv**-2
        return rng.gamma(shape, 1 / shape, count)


def _ramp_times(unit: NDArray[np.float64], start: float, end: float, ramp_s: float) -> NDArray[np.float64]:
    """Solve start·t + slope·t²/2 = unit inside the ramp; past its end the rate stays at `end`."""
    slope, area = (end - start) / ramp_s, (start + end) / 2 * ramp_s
    root = np.sqrt(np.maximum(start**2 + 2 * slope * np.minimum(unit, area), 0.0))
    inside: NDArray[np.float64] = 2 * np.minimum(unit, area) / (start + root)
    return inside + np.maximum(unit - area, 0.0) / end


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """System prompts: every request starts with one of `groups` prefixes of `tokens` tokens."""

    tokens: int
    groups: int = 1

    def __post_init__(self) -> None:
        _require_tokens("a shared prefix", self.tokens)
        _require(self.groups >= 1, f"{self.groups} groups are not possible: use at least 1")


@dataclass(frozen=True, slots=True)
class Request:
    """One request to make; its prompt follows from its seeds, so that a workload stays small."""

    request_id: str
    prompt_tokens: int
    max_tokens: int
    stage: int = 0
    scheduled_s: float | None = None
    """Seconds from the start of the stage; None in a closed loop."""
    seed: tuple[int, ...] = (0,)
    prefix_tokens: int = 0
    prefix_seed: tuple[int, ...] = (0,)
    tenant: str | None = None
    priority: str | None = None

    def prompt_ids(self, vocabulary: int) -> list[int]:
        """`prompt_tokens` token ids below `vocabulary`; only the shared prefix recurs in other requests."""
        shared = min(self.prefix_tokens, self.prompt_tokens)
        head = _token_ids(self.prefix_seed, shared, vocabulary) if shared else []
        return head + _token_ids(self.seed, self.prompt_tokens - shared, vocabulary)


def _token_ids(seed: tuple[int, ...], count: int, vocabulary: int) -> list[int]:
    ids = np.random.default_rng(seed).integers(FIRST_TOKEN_ID, vocabulary, count)
    return [int(token) for token in ids]


@dataclass(frozen=True, slots=True)
class Workload:
    """One stage of load: how many requests, of which lengths, arriving how; a seed always gives the same."""

    requests: int
    prompt: Lengths
    output: Lengths
    arrivals: Arrivals | None = None
    """None is a closed loop: a request is sent when another one ends."""
    prefix: SharedPrefix | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _require(
            1 <= self.requests <= MOST_REQUESTS,
            f"{self.requests} requests are not possible: use 1 to {MOST_REQUESTS:,} a stage",
        )
        _require(self.seed >= 0, f"seed {self.seed} is negative")

    def draw(self, stage: int = 0) -> list[Request]:
        """The requests of this stage; each stage has its own prompts, so none hits an earlier one's cache."""
        rng = np.random.default_rng((self.seed, stage))
        prompts = self.prompt.draw(self.requests, rng)
        outputs = self.output.draw(self.requests, rng)
        times = self.arrivals.times(self.requests, rng) if self.arrivals else None
        groups = rng.integers(0, self.prefix.groups, self.requests) if self.prefix else None
        return [
            Request(
                request_id=f"{stage}-{number}",
                prompt_tokens=int(prompts[number]),
                max_tokens=int(outputs[number]),
                stage=stage,
                scheduled_s=None if times is None else float(times[number]),
                seed=(self.seed, stage, number),
                prefix_tokens=self.prefix.tokens if self.prefix else 0,
                prefix_seed=(self.seed, 0, 0, 0 if groups is None else int(groups[number])),
            )
            for number in range(self.requests)
        ]

    def describe(self) -> dict[str, Any]:
        """For the stamp: every parameter by name, the distributions with their kind."""
        return {
            "requests": self.requests,
            "prompt_tokens": _described(self.prompt),
            "output_tokens": _described(self.output),
            "arrivals": asdict(self.arrivals) if self.arrivals else "closed loop",
            "shared_prefix": asdict(self.prefix) if self.prefix else None,
        }


def _described(lengths: Any) -> Any:
    if isinstance(lengths, Fixed):
        return lengths.tokens
    if isinstance(lengths, Empirical):
        return {"kind": "empirical", "observed": len(lengths.observed_tokens)}
    return {"kind": type(lengths).__name__.lower(), **asdict(lengths)}
