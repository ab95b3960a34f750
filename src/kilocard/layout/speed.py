"""How fast an engine is when so many requests stay with it: the step time, averaged over what steps hold."""

from __future__ import annotations

from dataclasses import dataclass

from kilocard.engine_model.step_time import StepTime
from kilocard.errors import KilocardError

WAITED_STEPS = 1.5
"""A request waits out half a step on average, and one more: plans are made a step ahead."""
QUEUED = 0.3
"""Of the prompts being read, how many a new one waits for: fitted to the simulator."""
ROUNDS = 12
"""Of the fixed point: each halves what is left of the error."""


@dataclass(frozen=True, slots=True)
class Load:
    """What each request asks, in tokens."""

    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "output_tokens"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10**7:
                raise KilocardError(f"{name} {count}: give a whole number of tokens from 1 to 10,000,000")

    @property
    def tokens(self) -> int:
        """What a request holds of the cache at its end."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Speed:
    """A replica under `concurrency` requests that are replaced as they end: means, in seconds."""

    concurrency: int
    ttft_s: float
    tpot_s: float
    output_tokens_per_s: float


def speed_at(
    step: StepTime, load: Load, concurrency: int, *, request_s: float = 0.0, batches: int = 1
) -> Speed:
    """The steady state of a closed loop whose requests come at different times.

    While a request decodes, each of the others ends after its output tokens and a new prompt is read: steps
    without one, and steps with chunks of one or more, in that proportion. A prompt waits for a part of those
    being read. A pipeline has `batches` under way at once, each with its share of the requests. The simulator
    agrees within a tenth in TPOT and throughput, and within a fifth in TTFT (tests/layout).
    """
    if concurrency < 1:
        raise KilocardError(f"concurrency {concurrency}: give 1 or more")
    seats = concurrency / min(batches, concurrency)
    chunks, chunk = _chunks(step, load, seats)
    reading = 0.0
    for _ in range(ROUNDS):
        others = (seats - 1) * (1 - reading / seats)
        asked = others / load.output_tokens * chunks
        together, stretch = _together(step, seats, chunk, asked)
        prompt_s = _prompt_s(step, load, seats, chunk, together)
        share = min(1.0, asked)
        tpot_s = (1 - share) * _decode_s(step, load, 1 + others) + share * prompt_s * stretch
        waited_s = WAITED_STEPS * tpot_s if seats > 1 else 0.0
        read_s = chunks * prompt_s * (1 + QUEUED * reading * (seats - 1) / seats / together)
        ttft_s = request_s + waited_s + read_s
        cycle_s = ttft_s + (load.output_tokens - 1) * tpot_s
        reading = (reading + seats * read_s / cycle_s) / 2
    return Speed(concurrency, ttft_s, tpot_s, concurrency * load.output_tokens / cycle_s)


def _decode_s(step: StepTime, load: Load, sequences: float) -> float:
    count = max(1, round(sequences))
    held = sequences * (load.prompt_tokens + load.output_tokens / 2)
    return step.step_s(count, held, count)


def _chunks(step: StepTime, load: Load, sequences: float) -> tuple[int, float]:
    """Into how many steps a prompt goes beside the others' tokens, and the tokens of each."""
    chunks = -(-load.prompt_tokens // _budget(step, sequences))
    return chunks, load.prompt_tokens / chunks


def _together(step: StepTime, sequences: float, chunk: float, asked: float) -> tuple[float, float]:
    """Chunks that one step takes where more than one is asked for, and by how much it falls behind."""
    taken = max(1.0, min(asked, _budget(step, sequences) / chunk))
    return taken, max(1.0, asked / taken)


def _budget(step: StepTime, sequences: float) -> int:
    """Tokens that a step has left beside those of the others."""
    budget = len(step.tokens_s) - 1 - max(0, round(sequences) - 1)
    if budget < 1:
        raise KilocardError(
            f"{round(sequences)} requests fill the budget of {len(step.tokens_s) - 1} tokens a step: raise "
            "max_num_batched_tokens"
        )
    return budget


def _prompt_s(step: StepTime, load: Load, sequences: float, chunk: float, together: float) -> float:
    """A step with chunks of prompts beside the decoding of the others."""
    others = max(0.0, sequences - together)
    held = others * (load.prompt_tokens + load.output_tokens / 2) + together * load.prompt_tokens
    pairs = together * chunk * (load.prompt_tokens + 1) / 2
    tokens = min(len(step.tokens_s) - 1, max(1, round(others + together * chunk)))
    return step.step_s(tokens, held, round(others + together), pairs)
