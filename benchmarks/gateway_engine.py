"""A fake engine: who is in it, how fast it is, what its prefix cache holds, and what it has really served."""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from time import perf_counter
from typing import Protocol

from gateway_frames import MODEL


@dataclass(frozen=True, slots=True)
class Script:
    """How the engines behave."""

    tpot_s: float = 0.005
    seats: int = 4
    """So many requests are served at full speed; more share what there is."""
    slow: dict[str, float] = field(default_factory=dict)
    """How many times as long all takes, by the engine's number."""
    first_steps: float = 1.0
    """Steps from the end of the prefill to the first token."""
    prefill_s: float = 0.0
    """For a prompt token that is not in the cache."""
    cached_tokens: int = 0
    """What a prefix cache holds; 0 is none."""
    block_tokens: int = 16
    most_active: int = 0
    """More requests wait in order; 0 lets all in."""
    has_metrics: bool = True


@dataclass(slots=True)
class Served:
    """What one request really got; seconds on the server's clock."""

    request_id: str
    engine: int
    arrived_s: float
    prompt_tokens: int
    cached_tokens: int = 0
    first_token_s: float | None = None
    last_token_s: float | None = None
    output_tokens: int = 0
    end: str = ""
    """`done` or `hung up`; empty while it runs."""


class PrefixCache:
    """Blocks of words, each known by all that stands before it."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self._most, self._block_tokens = blocks, block_tokens
        self._held: OrderedDict[int, None] = OrderedDict()

    def take(self, words: list[str]) -> int:
        """How many of the first words are held; all full blocks are held afterwards."""
        keys = list(self._keys(words))
        hits = next((number for number, key in enumerate(keys) if key not in self._held), len(keys))
        for key in reversed(keys):
            self._held[key] = None
            self._held.move_to_end(key)
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return hits * self._block_tokens

    def _keys(self, words: list[str]) -> Iterable[int]:
        key, step = 0, self._block_tokens
        for start in range(0, len(words) - step + 1, step):
            key = hash((key, *words[start : start + step]))
            yield key


class Teller(Protocol):
    """What brings the tokens of a stream to its client."""

    def token(self, stream: Stream) -> None:
        """One more."""

    def last_word(self, stream: Stream) -> None:
        """That was all."""


@dataclass(eq=False, slots=True)
class Stream:
    """One request in an engine."""

    engine: Engine
    line: Teller
    served: Served
    words: list[str]
    tokens: int
    is_streamed: bool
    is_chat: bool
    due: float = 0.0
    ended: bool = False


class Clock:
    """Wakes streams when they are due: one heap, one timer."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Stream]] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._set_for = 0.0

    def wake(self, stream: Stream) -> None:
        """At its `due`."""
        self._count += 1
        heapq.heappush(self._due, (stream.due, self._count, stream))
        if self._timer is None or self._due[0][0] < self._set_for:
            self._set()

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._set_for = self._due[0][0]
        wait_s = ceil(1000 * max(0.0, self._set_for - perf_counter())) / 1000
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        due, now = self._due, perf_counter()
        while due and due[0][0] <= now:
            stream = heapq.heappop(due)[2]
            if not stream.ended:
                stream.engine.step(stream, now)
        if due and self._timer is None:
            self._set()


class Engine:
    """One engine: who is in it, who waits, and what it has served."""

    def __init__(self, number: int, script: Script, clock: Clock) -> None:
        self.number, self.script, self.clock = number, script, clock
        self.slow = float(script.slow.get(str(number), 1.0))
        self.active: set[Stream] = set()
        self.waiting: deque[Stream] = deque()
        self.log: list[Served] = []
        self._prefilled_at = 0.0
        blocks = script.cached_tokens // script.block_tokens
        self._cache = PrefixCache(blocks, script.block_tokens) if blocks else None

    def step_s(self) -> float:
        """A token of everybody."""
        return self.script.tpot_s * max(1.0, len(self.active) / self.script.seats) * self.slow

    def submit(self, stream: Stream) -> None:
        """A new request."""
        self.log.append(stream.served)
        if self.script.most_active and len(self.active) >= self.script.most_active:
            self.waiting.append(stream)
        else:
            self._admit(stream)

    def step(self, stream: Stream, now: float) -> None:
        """The next token of one stream."""
        served = stream.served
        if served.first_token_s is None:
            served.first_token_s = now
        served.last_token_s = now
        served.output_tokens += 1
        stream.line.token(stream)
        if served.output_tokens >= stream.tokens:
            stream.line.last_word(stream)
            self.leave(stream, "done")
        else:
            stream.due += self.step_s()
            self.clock.wake(stream)

    def leave(self, stream: Stream, end: str) -> None:
        """Done, or its client is gone."""
        if stream.ended:
            return
        stream.ended, stream.served.end = True, end
        if stream in self.active:
            self.active.remove(stream)
        else:
            self.waiting.remove(stream)
        if self.waiting and len(self.active) < self.script.most_active:
            self._admit(self.waiting.popleft())

    def _admit(self, stream: Stream) -> None:
        self.active.add(stream)
        now, served = perf_counter(), stream.served
        stream.due = now
        if self._cache is not None:
            served.cached_tokens = self._cache.take(stream.words)
        if self.script.prefill_s:
            prefill_s = (served.prompt_tokens - served.cached_tokens) * self.script.prefill_s * self.slow
            self._prefilled_at = stream.due = max(now, self._prefilled_at) + prefill_s
        stream.due += self.script.first_steps * self.step_s()
        if stream.due <= now:
            self.step(stream, now)
        else:
            self.clock.wake(stream)

    def metrics(self) -> bytes:
        """In vLLM's names."""
        done = [served for served in self.log if served.end]
        values = {
            "vllm:num_requests_running": ("gauge", len(self.active)),
            "vllm:num_requests_waiting": ("gauge", len(self.waiting)),
            "vllm:kv_cache_usage_perc": ("gauge", min(1.0, len(self.active) / 256)),
            "vllm:prompt_tokens_total": ("counter", sum(served.prompt_tokens for served in done)),
            "vllm:generation_tokens_total": ("counter", sum(served.output_tokens for served in self.log)),
        }
        lines = [
            f'# TYPE {name} {kind}\n{name}{{engine="0",model_name="{MODEL}"}} {value}\n'
            for name, (kind, value) in values.items()
        ]
        return "".join(lines).encode()
