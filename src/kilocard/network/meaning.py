"""What a measured wire between machines is good for: replicas, tensor parallelism, time-outs."""

from __future__ import annotations

from dataclasses import dataclass

from kilocard.errors import KilocardError
from kilocard.network.timeouts import collective_timeout_s
from kilocard.parallel.collective import Wire, allreduce_s

GIGABIT_BYTES = 10**9 / 8
NOMINAL_GBIT = (1, 2.5, 10, 25, 40, 50, 100, 200, 400)
OVER_NOMINAL = 1.05
"""A wire is not judged the next faster one for a measurement that is so little over."""
REQUEST_BYTES = 100_000
"""A request of data parallelism, estimated: 8 kB of prompt, and 360 tokens in events of 250 bytes."""
ALLREDUCES_PER_LAYER = 2
VALUE_BYTES = 2


@dataclass(frozen=True, slots=True)
class Step:
    """The layout and the step whose collectives are judged; the defaults are a 70B-class model's, in BF16."""

    ranks: int = 2
    hidden: int = 8192
    layers: int = 80
    batch: int = 32
    """Tokens of a decode step, one a sequence."""
    tokens: int = 2048
    """Tokens of a prefill chunk."""

    def __post_init__(self) -> None:
        least = {"ranks": 2, "hidden": 1, "layers": 1, "batch": 1, "tokens": 1}
        for name, low in least.items():
            if not low <= getattr(self, name) <= 10**7:
                raise KilocardError(
                    f"{name} {getattr(self, name)}: give a whole number from {low} to 10000000"
                )


@dataclass(frozen=True, slots=True)
class Meaning:
    """Derived from a wire; times in seconds."""

    like: str
    requests_per_s: float
    """Of REQUEST_BYTES, that the wire carries."""
    decode_allreduce_s: float
    decode_step_s: float
    """All the allreduces of one decode step."""
    prefill_allreduce_s: float
    prefill_step_s: float
    decode_steps_per_s_at_most: float
    timeout_s: tuple[int, int]
    """5 and 10 times the longest normal time."""
    normal_s: float
    kind: str = "derived"


def meaning_of(wire: Wire, step: Step, bytes_per_s: float, normal_step_s: float | None = None) -> Meaning:
    """What the wire costs this step; `bytes_per_s` is all streams', `normal_step_s` a whole step's time."""
    sizes = [tokens * step.hidden * VALUE_BYTES for tokens in (step.batch, step.tokens)]
    decode_s, prefill_s = map(float, allreduce_s(sizes, step.ranks, wire, all_to_all=False))
    times = ALLREDUCES_PER_LAYER * step.layers
    normal_s = max(prefill_s, decode_s) if normal_step_s is None else normal_step_s
    return Meaning(
        like=nominal(bytes_per_s),
        requests_per_s=bytes_per_s / REQUEST_BYTES,
        decode_allreduce_s=decode_s,
        decode_step_s=times * decode_s,
        prefill_allreduce_s=prefill_s,
        prefill_step_s=times * prefill_s,
        decode_steps_per_s_at_most=1 / (times * decode_s),
        timeout_s=collective_timeout_s(normal_s),
        normal_s=normal_s,
    )


def nominal(bytes_per_s: float) -> str:
    """The slowest wire on sale that such a rate fits on."""
    gbit = bytes_per_s / GIGABIT_BYTES
    if gbit < NOMINAL_GBIT[0] / 2:
        return "less than 1 Gb/s"
    fitting = next((rate for rate in NOMINAL_GBIT if gbit <= rate * OVER_NOMINAL), None)
    return f"{fitting:g} Gb/s" if fitting else f"more than {NOMINAL_GBIT[-1]} Gb/s"
