"""Exercises on pools apart: what goes over the wire, and when it is worth it."""

from __future__ import annotations

from kilocard import facts
from kilocard.notebook.exercises.exercise import Exercise


def _cache_gb(model: str, tokens: int) -> float:
    return tokens * facts.model(model).kv_bytes_per_token(facts.KvDtype.BF16) / 1e9


PORT_GB_PER_S = 47
"""Of 400 Gb/s, as the chapter has it."""

EXERCISES = (
    Exercise(
        "2.6.1",
        lambda: _cache_gb("llama-3.1-70b", 8000) / PORT_GB_PER_S * 1000,
        "ms",
        lambda it: (
            "327,680 bytes a token × 8,000 = 2.62 GB; ÷ 47 GB/s, what a port of 400 Gb/s was measured to "
            f"carry, = {it:.0f} ms. The prompt itself took the better part of a second to read, so the wire "
            "is no argument against it; at 0.5 GB/s, which a default set-up was seen to reach, it is 5 s."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "gigabits are taken for gigabytes": _cache_gb("llama-3.1-70b", 8000) / 400 * 1000,
            "an 8B's cache is sent": _cache_gb("llama-3.1-8b", 8000) / PORT_GB_PER_S * 1000,
        },
    ),
    Exercise(
        "2.6.2",
        lambda: 20 * _cache_gb("llama-3.1-8b", 3072) * 8,
        "Gb/s",
        lambda it: (
            "131,072 bytes × 3,072 = 0.403 GB a request, × 20 requests/s = 8.1 GB/s, × 8 = "
            f"{it:.0f} Gb/s. One port of 100 Gb/s that TCP fills to a third will not do; one of 400 Gb/s "
            "with RDMA is a sixth full."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {"bytes are not made bits": 20 * _cache_gb("llama-3.1-8b", 3072)},
    ),
)
