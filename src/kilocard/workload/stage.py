"""One stage of load: its requests, drawn from what they share, how long they are and when they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

import numpy as np

from kilocard.workload.arrivals import Arrivals
from kilocard.workload.lengths import Empirical, Fixed, Lengths
from kilocard.workload.limits import MOST_REQUESTS, require, require_tokens
from kilocard.workload.request import Request


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """System prompts: every request starts with one of `groups` prefixes of `tokens` tokens."""

    tokens: int
    groups: int = 1

    def __post_init__(self) -> None:
        require_tokens("a shared prefix", self.tokens)
        require(self.groups >= 1, f"{self.groups} groups are not possible: use at least 1")


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
    priority: Mapping[str, float] = field(default_factory=dict)
    """Shares by the name that a gateway knows a priority by; where none is named, requests carry none."""

    def __post_init__(self) -> None:
        require(
            1 <= self.requests <= MOST_REQUESTS,
            f"{self.requests} requests are not possible: use 1 to {MOST_REQUESTS:,} a stage",
        )
        require(self.seed >= 0, f"seed {self.seed} is negative")
        for name, share in self.priority.items():
            require(
                name.isascii() and name.isprintable() and bool(name.strip()),
                f"the priority {name!r:.40} fits into no header: use letters, like interactive",
            )
            require(
                0 < share < inf, f"a share of {share} of the priority {name} is not possible: use one above 0"
            )

    def draw(self, stage: int = 0) -> list[Request]:
        """The requests of this stage; each stage has its own prompts, so none hits an earlier one's cache."""
        rng = np.random.default_rng((self.seed, stage))
        prompts = self.prompt.draw(self.requests, rng)
        outputs = self.output.draw(self.requests, rng)
        times = self.arrivals.times(self.requests, rng) if self.arrivals else None
        groups = rng.integers(0, self.prefix.groups, self.requests) if self.prefix else None
        priorities = self._priorities(rng)
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
                priority=priorities[number],
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
            **({"priority": dict(self.priority)} if self.priority else {}),
        }

    def _priorities(self, rng: np.random.Generator) -> list[str] | list[None]:
        if not self.priority:
            return [None] * self.requests
        shares = np.array(list(self.priority.values()))
        drawn = rng.choice(len(shares), self.requests, p=shares / shares.sum())
        names = list(self.priority)
        return [names[place] for place in drawn]


def _described(lengths: Any) -> Any:
    if isinstance(lengths, Fixed):
        return lengths.tokens
    if isinstance(lengths, Empirical):
        return {"kind": "empirical", "observed": len(lengths.observed_tokens)}
    return {"kind": type(lengths).__name__.lower(), **asdict(lengths)}
