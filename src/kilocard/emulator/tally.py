"""What an emulated engine counts for `/metrics`."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any

from kilocard.emulator.buckets import (
    FIRST_TOKEN_S,
    LATENESS_S,
    PREEMPTIONS,
    REQUEST_LATENCY_S,
    TOKEN_GAP_S,
    token_bounds,
)
from kilocard.engine_model.compiled import PICOSECONDS

if TYPE_CHECKING:
    from kilocard.emulator.stream import Stream


class Histogram:
    """Counts by bucket, and a sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        """One more."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Tally:
    """Of one engine, since its start. Times are virtual seconds: what the engine itself would measure."""

    def __init__(self, max_model_len: int) -> None:
        self.max_model_len = max_model_len
        tokens = token_bounds(max_model_len)
        self.tokens = self.prompt_tokens = self.cached_tokens = self.aborted = 0
        self.finished: Counter[str] = Counter()
        self.lateness = Histogram(LATENESS_S)
        """Of each step's last token, in seconds of the machine's clock: whether the emulator keeps up."""
        self.first_token = Histogram(FIRST_TOKEN_S)
        self.token_time = Histogram(TOKEN_GAP_S)
        self.whole, self.queue, self.inference, self.prefill, self.decode = (
            Histogram(REQUEST_LATENCY_S) for _ in range(5)
        )
        self.prompt_lengths, self.answer_lengths, self.most_lengths, self.computed_lengths = (
            Histogram(tokens) for _ in range(4)
        )
        self.preemptions = Histogram(PREEMPTIONS)

    def note_step(self, tokens: int, late_s: float) -> None:
        """The tokens of a step have left."""
        self.tokens += tokens
        self.lateness.note(late_s)

    def note_first(self, stream: Stream, cached_tokens: int) -> None:
        """A request had its first token."""
        self.prompt_tokens += stream.asked.prompt_tokens
        self.cached_tokens += cached_tokens
        self.first_token.note((stream.first_ps - stream.arrived_ps) / PICOSECONDS)

    def note(self, stream: Stream, last_ps: int, request: Any, overhead_ps: int) -> None:
        """A request had its last token."""
        asked = stream.asked
        queue_s = max(0, int(request.scheduled_ps) - int(request.arrival_ps)) / PICOSECONDS
        first_s = (stream.first_ps - stream.arrived_ps) / PICOSECONDS
        whole_s = (last_ps - stream.arrived_ps) / PICOSECONDS
        decode_s = whole_s - first_s
        prefill_s = max(0.0, first_s - queue_s - overhead_ps / PICOSECONDS)
        self.finished[asked.finish_reason] += 1
        self.whole.note(whole_s)
        self.queue.note(queue_s)
        self.prefill.note(prefill_s)
        self.decode.note(decode_s)
        self.inference.note(prefill_s + decode_s)
        self.prompt_lengths.note(asked.prompt_tokens)
        self.answer_lengths.note(asked.output_tokens)
        self.most_lengths.note(asked.most_tokens)
        self.computed_lengths.note(asked.prompt_tokens - int(request.cached))
        self.preemptions.note(int(request.preemptions))
        if asked.output_tokens > 1:
            self.token_time.note(decode_s / (asked.output_tokens - 1))
