"""What stands before an engine, measured by difference: the same requests direct and through each hop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from statistics import median, quantiles
from typing import NamedTuple

from kilocard.gateway.process import AtWork, gateway_over
from kilocard.launch import Engine
from kilocard.load import sweep
from kilocard.stats import ttft_s

PROMPT_TOKENS = 16


@contextmanager
def door_before(engines: Sequence[Engine], cap: int = 8) -> Iterator[AtWork]:
    """A gateway before engines, which are called a, b, … and stand on nodes of their own by name."""
    replicas = [
        {"url": engine.url, "id": name, "node": f"node-{name}"}
        for name, engine in zip("abcdefgh", engines, strict=False)
    ]
    pool = {"name": "chat", "cap": cap, "replicas": replicas}
    with gateway_over({"name": "door", "model": engines[0].model, "pools": [pool]}) as running:
        yield running


def by_hops(
    urls: Mapping[str, str], model: str, *, rounds: int = 6, requests: int = 8
) -> dict[str, tuple[float, ...]]:
    """The median TTFT in seconds of each round, at each address: one request at a time, the addresses in
    turn, so that a box that grows slower treats all alike. Each connection has served one before."""
    found: dict[str, list[float]] = {name: [] for name in urls}
    for turn in range(rounds):
        for place, (name, url) in enumerate(urls.items()):
            run = sweep(
                url,
                model,
                concurrency=(1,),
                requests_per_level=requests,
                prompt_tokens=PROMPT_TOKENS,
                output_tokens=1,
                seed=1000 * turn + place,
            )
            found[name].append(float(ttft_s(run.ok).median()))
    return {name: tuple(medians) for name, medians in found.items()}


class Added(NamedTuple):
    """Seconds that a hop adds: the median of the rounds' differences, and the middle half of these."""

    median_s: float
    low_s: float
    high_s: float

    @property
    def is_seen(self) -> bool:
        """Whether three rounds of four agree that it adds something."""
        return self.low_s > 0


def added_s(through: Sequence[float], direct: Sequence[float]) -> Added:
    """What a hop adds, by difference round by round."""
    differences = [ours - its for ours, its in zip(through, direct, strict=True)]
    low_s, middle_s, high_s = quantiles(differences, n=4, method="inclusive")
    return Added(middle_s, low_s, high_s)


@dataclass(frozen=True, slots=True)
class Hop:
    """A way to ask, the TTFT on it, and what it adds to the way before."""

    way: str
    ttft_s: float
    added: Added | None


def ladder(urls: Mapping[str, str], model: str) -> list[Hop]:
    """Ways that each have one hop more than the one before, the shortest first."""
    found = by_hops(urls, model)
    shorter = [None, *found.values()]
    return [
        Hop(way, median(medians), added_s(medians, before) if before else None)
        for (way, medians), before in zip(found.items(), shorter, strict=False)
    ]


def own_answer_s(url: str, asks: int = 60) -> float:
    """The median seconds of a question that a gateway answers by itself, on a kept connection."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=10)
    took: list[float] = []
    try:
        for _ in range(asks):
            began = time.perf_counter()
            connection.request("GET", "/health")
            connection.getresponse().read()
            took.append(time.perf_counter() - began)
    finally:
        connection.close()
    return median(took)
