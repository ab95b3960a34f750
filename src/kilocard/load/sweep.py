"""Measure an engine: a sweep of concurrencies, a replay of a schedule, or one request looked at closely."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from numbers import Integral
from typing import Any, cast

from kilocard.box import describe_box
from kilocard.errors import KilocardError
from kilocard.load.answer import whole_characters
from kilocard.load.client import Client, Timeouts
from kilocard.load.connection import Exchange
from kilocard.load.health import require_sockets
from kilocard.load.identity import identify
from kilocard.load.in_thread import run_in_thread
from kilocard.load.interrupts import interrupts
from kilocard.load.recorder import Progress, Recorder, Recording, Stage
from kilocard.load.scene import Scene
from kilocard.load.stream import read_outcome
from kilocard.load.target import Endpoint, Target
from kilocard.record import Run, Status
from kilocard.workload import MOST_REQUESTS, Fixed, Lengths, Request, SharedPrefix, Workload

WARMUP_STAGE = 1_000_000
"""Seeds the prompts of warm-up requests apart from those of every level."""

MOST_CONCURRENCY = 65_535
MOST_WARMUP = 10_000

TimeoutsLike = Timeouts | float


def sweep(
    url: str | Target,
    model: str = "",
    *,
    concurrency: Sequence[int] = (1, 2, 4, 8, 16, 32),
    requests_per_level: int | Callable[[int], int] | None = None,
    prompt_tokens: int | Lengths = 128,
    output_tokens: int | Lengths = 64,
    prefix: SharedPrefix | None = None,
    warmup: int = 1,
    seed: int = 0,
    timeouts: TimeoutsLike | None = None,
    stamp: Mapping[str, Any] | None = None,
    keep_chunk_times: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Closed loop at each concurrency in turn; each level is a stage of the run.

    Without `model`, the only one served. A level makes at least twice its concurrency of requests, so that it
    holds it for a while; the default is `requests_for`. `stamp` overrides fields of the `Stamp` (card, layout
    ...). An interrupt or a dead engine ends the sweep early: the run holds what was measured, and
    `stamp.client["stopped"]` says why.
    """
    levels = checked_levels(concurrency)
    require_sockets(max(levels))
    target = as_target(url, model)
    prompt, output = as_lengths(prompt_tokens), as_lengths(output_tokens)
    loads = [
        Workload(requests_of(requests_per_level, level), prompt, output, prefix=prefix, seed=seed)
        for level in levels
    ]
    stages = [
        Stage(number, {"concurrency": level}, load.draw(number), level)
        for number, (level, load) in enumerate(zip(levels, loads, strict=True))
    ]
    described = {**loads[0].describe(), "requests": [load.requests for load in loads]}
    return _measure(target, stages, described, warmup, seed, timeouts, stamp, keep_chunk_times, progress)


def replay(
    url: str | Target,
    model: str = "",
    *,
    workloads: Workload | Sequence[Workload],
    warmup: int = 1,
    timeouts: TimeoutsLike | None = None,
    stamp: Mapping[str, Any] | None = None,
    keep_chunk_times: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Open loop: every request at its scheduled time, whatever is in flight; one stage a workload.

    The table has `scheduled_s` beside `sent_s`: TTFT from the schedule includes what the client waited.
    """
    loads = [workloads] if isinstance(workloads, Workload) else list(workloads)
    if not loads:
        raise KilocardError("a replay needs at least one workload")
    stages = [
        Stage(number, {"rate_per_s": _rate(load)}, load.draw(number)) for number, load in enumerate(loads)
    ]
    target = as_target(url, model)
    require_sockets(1)
    described = {**loads[0].describe(), "requests": [load.requests for load in loads]}
    return _measure(
        target, stages, described, warmup, loads[0].seed, timeouts, stamp, keep_chunk_times, progress
    )


@dataclass(frozen=True, slots=True)
class Streamed:
    """One request's answer, chunk by chunk. Times are seconds since it was sent."""

    status: Status
    http_status: int | None
    error: str | None
    chunk_times_s: list[float] = field(default_factory=list)
    chunk_texts: list[str] = field(default_factory=list)
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def text(self) -> str:
        """The whole answer."""
        return whole_characters("".join(self.chunk_texts))

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token."""
        return self.chunk_times_s[0] if self.chunk_times_s else None

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first."""
        if not self.chunk_times_s or not self.output_tokens or self.output_tokens < 2:
            return None
        return (self.chunk_times_s[-1] - self.chunk_times_s[0]) / (self.output_tokens - 1)


def send_one(
    url: str | Target,
    model: str = "",
    *,
    prompt: str | int | list[int] = "Once upon a time",
    max_tokens: int = 32,
    timeouts: TimeoutsLike | None = None,
    **options: Any,
) -> Streamed:
    """Stream one request and look at every chunk. `prompt` is text, token ids, or a number of random ones.

    Keyword arguments beyond these go into the request's JSON as they are. A request that the engine refuses
    is no exception: its status, HTTP status and error are in the answer.
    """
    target = as_target(url, model)
    if not target.model:
        target = replace(target, model=identify(target).model)
    request = Request("one", prompt if isinstance(prompt, int) else 0, max_tokens)
    asked = request.prompt_ids(target.vocabulary) if isinstance(prompt, int) else prompt
    payload = target.frame(target.streamed(asked, max_tokens, **options), request.request_id)
    exchange = Exchange(request, payload)

    async def send() -> None:
        async with Client(target, _timeouts(timeouts)) as client:
            await client.send(exchange)

    run_in_thread(send, lambda: None)
    outcome = read_outcome(exchange)
    sent = exchange.sent or 0.0
    return Streamed(
        status=outcome.status,
        http_status=outcome.http_status,
        error=outcome.error,
        chunk_times_s=[time - sent for time in outcome.chunk_times],
        chunk_texts=outcome.chunk_texts,
        prompt_tokens=outcome.prompt_tokens,
        cached_tokens=outcome.cached_tokens,
        output_tokens=outcome.output_tokens,
    )


def requests_for(concurrency: int) -> int:
    """Requests of a level unless told otherwise: four rounds, and at least ten."""
    return max(10, 4 * concurrency)


def checked_levels(concurrency: Iterable[int]) -> list[int]:
    """The levels of a sweep, each from 1 to what one address has ports for."""
    levels = list(concurrency)
    if not levels:
        raise KilocardError("a sweep needs at least one concurrency")
    for level in levels:
        if not 1 <= level <= MOST_CONCURRENCY:
            raise KilocardError(f"a concurrency of {level} is not possible: use 1 to {MOST_CONCURRENCY:,}")
    return levels


def as_target(url: str | Target, model: str, endpoint: Endpoint = "completions") -> Target:
    """A target from its URL and model, or as it is."""
    return url if isinstance(url, Target) else Target(url, model, endpoint)


def as_lengths(tokens: int | Lengths) -> Lengths:
    """A number of tokens is a fixed length."""
    return Fixed(int(tokens)) if isinstance(tokens, Integral) else cast(Lengths, tokens)


def _timeouts(given: TimeoutsLike | None) -> Timeouts:
    if isinstance(given, Timeouts):
        return given
    return Timeouts() if given is None else Timeouts(given, given)


def requests_of(asked: int | Callable[[int], int] | None, level: int) -> int:
    """Requests that a level makes, when so many are asked for: at least twice its concurrency."""
    if asked is None:
        return requests_for(level)
    count = asked(level) if callable(asked) else asked
    if not 1 <= count <= MOST_REQUESTS:
        raise KilocardError(f"{count} requests are not possible: use 1 to {MOST_REQUESTS:,} a level")
    return max(count, 2 * level)


def _rate(load: Workload) -> float:
    if load.arrivals is None:
        raise KilocardError("an open loop needs arrivals: give the workload Arrivals(rate_per_s)")
    return load.arrivals.rate_per_s


def _measure(
    target: Target,
    stages: Sequence[Stage],
    workload: dict[str, Any],
    warmup: int,
    seed: int,
    timeouts: TimeoutsLike | None,
    overrides: Mapping[str, Any] | None,
    keep_chunk_times: bool,
    progress: Progress | None,
) -> Run:
    if not 0 <= warmup <= MOST_WARMUP:
        raise KilocardError(f"{warmup} warm-up requests are not possible: use 0 to {MOST_WARMUP:,}")
    identity = identify(target)
    target = replace(target, model=identity.model)
    first = stages[0].requests[0]
    warm = [
        Request(f"warmup-{number}", first.prompt_tokens, first.max_tokens, seed=(seed, WARMUP_STAGE, number))
        for number in range(warmup)
    ]
    scene = Scene(target, identity, describe_box(), datetime.now(UTC).isoformat(timespec="seconds"), seed)
    workload = {**workload, "endpoint": target.endpoint, "warmup": warmup}
    _ = scene.stamp(Recording(), workload, overrides)  # an override that fits no stamp is said before the run
    recorder = Recorder(target, stages, _timeouts(timeouts), warm, keep_chunk_times, progress)
    with interrupts() as stop:
        stop.keeping = True
        recording = recorder.record()
        stamp = scene.stamp(recording, workload, overrides)
        return Run.from_rows(recording.rows, stamp, chunk_times_s=recording.chunk_times_s)
