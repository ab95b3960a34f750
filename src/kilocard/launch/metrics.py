"""What a vLLM engine says of itself on /metrics, as typed values, now or sampled over time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kilocard.beside import beside
from kilocard.errors import KilocardError
from kilocard.launch import web

NAMES: Mapping[str, tuple[str, ...]] = {
    "running": ("num_requests_running",),
    "waiting": ("num_requests_waiting",),
    "kv_used_ratio": ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    "preemptions": ("num_preemptions_total", "num_preemptions"),
    "prefix_queries": ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
    "prefix_hits": ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
    "prompt_tokens": ("prompt_tokens_total",),
    "cached_prompt_tokens": ("prompt_tokens_cached_total",),
    "generation_tokens": ("generation_tokens_total",),
    "finished": ("request_success_total",),
}
"""Our name -> vLLM's names, today's first: `gpu_cache_usage_perc` was renamed in 2025."""


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """One look at /metrics; null where this version has no such series. Counters run from its start."""

    running: int | None = None
    waiting: int | None = None
    kv_used_ratio: float | None = None
    """0 to 1, of the KV cache's blocks."""
    preemptions: int | None = None
    prefix_queries: int | None = None
    """Tokens looked up in the prefix cache."""
    prefix_hits: int | None = None
    """Tokens found there."""
    prompt_tokens: int | None = None
    cached_prompt_tokens: int | None = None
    generation_tokens: int | None = None
    finished: int | None = None
    cache_config: Mapping[str, str] = field(default_factory=dict)
    """The labels of `vllm:cache_config_info`: `num_gpu_blocks`, `block_size`, ..."""

    @property
    def kv_blocks(self) -> int | None:
        """Blocks in the KV cache."""
        counts = (_whole(self.cache_config.get(name)) for name in ("num_gpu_blocks", "num_cpu_blocks"))
        return next((count for count in counts if count is not None), None)

    @property
    def kv_block_tokens(self) -> int | None:
        """Tokens a block."""
        return _whole(self.cache_config.get("block_size"))

    @property
    def kv_tokens(self) -> int | None:
        """Tokens that the whole KV cache holds."""
        if self.kv_blocks is None or self.kv_block_tokens is None:
            return None
        return self.kv_blocks * self.kv_block_tokens

    @property
    def prefix_hit_ratio(self) -> float | None:
        """Tokens found in the prefix cache out of those looked up, since the engine's start."""
        if not self.prefix_queries or self.prefix_hits is None:
            return None
        return self.prefix_hits / self.prefix_queries


def parse_metrics(page: str) -> EngineMetrics:
    """Values from a Prometheus text page; of several engines (data parallel) the sum, or mean ratio."""
    values: dict[str, list[float]] = {}
    cache_config: dict[str, str] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            name = sample.name.removeprefix("vllm:").removeprefix("vllm_")
            values.setdefault(name, []).append(sample.value)
            if name == "cache_config_info":
                cache_config = dict(sample.labels)
    found = {ours: _first(values, theirs) for ours, theirs in NAMES.items()}
    whole = {
        name: None if row is None else int(sum(row)) for name, row in found.items() if name != "kv_used_ratio"
    }
    used = found["kv_used_ratio"]
    return EngineMetrics(
        **whole, kv_used_ratio=sum(used) / len(used) if used else None, cache_config=cache_config
    )


def read_metrics(url: str, timeout_s: float = 5.0) -> EngineMetrics:
    """What the engine at this root URL says now."""
    address = f"{url.rstrip('/')}/metrics"
    try:
        return parse_metrics(web.get_text(address, timeout_s))
    except web.NoAnswerError as error:
        raise KilocardError(
            f"{address} gives no metrics ({error}): name the root URL of a running vLLM"
        ) from error
    except ValueError as error:
        raise KilocardError(
            f"{address} is no Prometheus page ({error}): name the root URL of a vLLM"
        ) from error


@contextmanager
def sample(url: str, every_s: float = 0.5, replica: str = "") -> Iterator[list[dict[str, Any]]]:
    """Rows for `Run.samples`, gathered in the background during a with-block; `t_s` from its start.

    A look that fails gives no row: missing is missing, never 0.
    """
    if every_s <= 0:
        raise KilocardError(f"a sample every {every_s} s cannot be: every_s must be above 0")
    rows: list[dict[str, Any]] = []
    began = time.monotonic()

    def gather(enough: Event) -> None:
        while not enough.is_set():
            asked = time.monotonic()
            try:
                seen = read_metrics(url)
            except KilocardError:
                seen = None
            if seen:
                rows.append(_row(asked - began, replica or url, seen))
            enough.wait(max(every_s - (time.monotonic() - asked), 0.0))

    with beside(gather, "metrics", most_s=10):
        yield rows


def _row(t_s: float, replica: str, seen: EngineMetrics) -> dict[str, Any]:
    return {
        "t_s": t_s,
        "replica": replica,
        "running": seen.running,
        "waiting": seen.waiting,
        "kv_used_ratio": seen.kv_used_ratio,
        "preemptions": seen.preemptions,
    }


def _first(values: Mapping[str, list[float]], names: tuple[str, ...]) -> list[float] | None:
    return next((values[name] for name in names if name in values), None)


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
