"""Several engines of one spec on this box, each on its own share of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import Any

from kilocard.box import describe_box
from kilocard.errors import KilocardError
from kilocard.launch import elsewhere, share
from kilocard.launch.command import Build, Flavour, NoBuildError, find_build
from kilocard.launch.engine import Engine, stop_all
from kilocard.launch.place import ANYWHERE, Place, places_on_cards, places_on_cores, share_cores
from kilocard.launch.process import (
    DRAIN_S,
    READY_TIMEOUT_S,
    Say,
    await_ready,
    begin,
    check_seconds,
    command_for,
    default_spec,
    usable_cores,
)
from kilocard.specs.engine import EngineSpec

MOST_REPLICAS = 64


@contextmanager
def launch_replicas(spec: EngineSpec | None = None, count: int = 2, **options: Any) -> Iterator[list[Engine]]:
    """So many engines for the length of a with-block; the options are those of `start_replicas`."""
    engines = start_replicas(spec, count, **options)
    try:
        yield engines
    finally:
        stop_all(engines)


def start_replicas(
    spec: EngineSpec | None = None,
    count: int = 2,
    *,
    say: Say | None = None,
    drain_s: float = DRAIN_S,
    ready_timeout_s: float = READY_TIMEOUT_S,
    stand_in: bool = True,
) -> list[Engine]:
    """So many engines of one spec, begun together, each on its own cores or cards; where one fails, none.

    An engine that `start` began and that still runs is one of them if it computes on as many cores as a
    replica gets. Where no vLLM is installed, emulated ones stand in. KILOCARD_ENGINE_URL may name as many
    engines, separated by commas: they are used as they are, the first ones of more, and fewer are an error.
    """
    began = time.monotonic()
    check_seconds(drain_s=drain_s, ready_timeout_s=ready_timeout_s)
    spec = spec or default_spec()
    wheres = _wheres(spec, count, drain_s, stand_in)
    with ThreadPoolExecutor(count, thread_name_prefix="kilocard-replica") as threads:
        begun = [
            threads.submit(begin, spec, say=say, drain_s=drain_s, stand_in=stand_in, **where)
            for where in wheres
        ]
    engines = [future.result() for future in begun if not future.exception()]
    if failure := next(filter(None, (future.exception() for future in begun)), None):
        stop_all(engines)
        raise failure
    await_ready(engines, began, ready_timeout_s)
    return engines


def _wheres(spec: EngineSpec, count: int, drain_s: float, stand_in: bool) -> list[dict[str, Any]]:
    if not 1 <= count <= MOST_REPLICAS:
        raise KilocardError(f"{count} replicas cannot be started: take 1 to {MOST_REPLICAS}")
    if urls := elsewhere.named_urls():
        return [{"url": url} for url in _enough(urls, count)]
    try:
        build = find_build()
    except NoBuildError:
        if not stand_in:
            raise
        return [{}] * count
    return [{"place": place} for place in _places(spec, count, build, drain_s)]


def _enough(urls: list[str], count: int) -> list[str]:
    if len(set(urls)) < count:
        raise KilocardError(
            f"{elsewhere.VARIABLE} names {len(set(urls))} of {count} replicas: name {count} engines, "
            "separated by commas, or unset it to have them started"
        )
    return list(dict.fromkeys(urls))[:count]


def _places(spec: EngineSpec, count: int, build: Build, drain_s: float) -> list[Place]:
    if build.flavour is Flavour.GPU:
        places = places_on_cards(count, spec.ranks, visible_cards())
        fits = True
    else:
        places = places_on_cores(count, spec.ranks, usable_cores())
        fits = places[0].cores == tuple(chain(*share_cores(spec.ranks, usable_cores())))
    if fits and share.is_shared(command_for(spec, build, None, drain_s, ANYWHERE)):
        return [ANYWHERE, *places[1:]]
    return places


def most_ranks() -> int:
    """How many ranks, of one engine or several, this box has cores or cards for; 1 where it is emulated."""
    try:
        on_cards = find_build().flavour is Flavour.GPU
    except NoBuildError:
        return 1
    return len(visible_cards() if on_cards else usable_cores())


def visible_cards() -> list[str]:
    """The cards of this box as CUDA_VISIBLE_DEVICES names them: those that it names, else all by number."""
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [card.strip() for card in named.split(",") if card.strip()]
    return [str(number) for number in range(len(describe_box()["gpus"]))]
