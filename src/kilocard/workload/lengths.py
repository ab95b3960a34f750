"""How long prompts and answers are: distributions of token counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kilocard.workload.limits import SPREADS, require, require_tokens, require_within


class Lengths(Protocol):
    """A distribution of token counts."""

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """`count` lengths, each at least 1."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Every length the same."""

    tokens: int

    def __post_init__(self) -> None:
        require_tokens("a length", self.tokens)

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
        require_tokens("a mean length", self.mean_tokens)
        require_within("a cv (for equal lengths use Fixed)", self.cv, SPREADS)
        require(self.most_tokens >= 1, f"most_tokens {self.most_tokens} is under 1")

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
        require(
            1 <= self.least_tokens <= self.most_tokens, "a heavy tail needs 1 <= least_tokens <= most_tokens"
        )
        require_within("an alpha", self.alpha, SPREADS)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """P(length > x) = (least / x)^alpha."""
        lengths = self.least_tokens * (1 + rng.pareto(self.alpha, count))
        return np.minimum(lengths, self.most_tokens).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Empirical:
    """Lengths drawn with replacement from observed ones."""

    observed_tokens: Sequence[int]

    def __post_init__(self) -> None:
        require(len(self.observed_tokens) > 0, "an empirical distribution needs at least one observed length")
        for tokens in (min(self.observed_tokens), max(self.observed_tokens)):
            require_tokens("an observed length", tokens)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """`count` of the observed lengths."""
        return rng.choice(np.asarray(self.observed_tokens, dtype=np.int64), count)


@dataclass(frozen=True, slots=True)
class Listed:
    """These very lengths, in this order; from the start again where more are asked for."""

    tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        require(len(self.tokens) > 0, "a list of lengths needs at least one")
        for tokens in (min(self.tokens), max(self.tokens)):
            require_tokens("a length", tokens)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The first `count` of them."""
        return np.resize(np.asarray(self.tokens, dtype=np.int64), count)
