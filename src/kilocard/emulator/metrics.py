"""The `/metrics` page of an emulated engine: vLLM 0.32's names, labels and buckets, in Prometheus's text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from kilocard.emulator.buckets import STEP_TOKENS, TOKEN_GAP_S
from kilocard.emulator.engine import Engine
from kilocard.emulator.tally import Histogram
from kilocard.engine_model.compiled import PICOSECONDS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REASONS = ("stop", "length", "abort", "error", "repetition")
REJECTIONS = ("max_num_queued_reqs", "max_num_queued_tokens")
"""Limits that an emulated engine does not have."""


def page(engine: Engine, model: str, gaps: Sequence[int], step_tokens: Sequence[int]) -> str:
    """All series of one engine; `gaps` and `step_tokens` are the histograms that the compiled steps fill."""
    labels = f'engine="0",model_name="{_escaped(model)}"'
    lines: list[str] = []
    _gauges(lines, labels, engine)
    _counters(lines, labels, engine, model)
    _histograms(lines, labels, engine)
    _histogram(lines, labels, "inter_token_latency_seconds", TOKEN_GAP_S, gaps[:-1], gaps[-1] / PICOSECONDS)
    _histogram(lines, labels, "iteration_tokens_total", STEP_TOKENS, step_tokens[:-1], float(step_tokens[-1]))
    return "\n".join(lines) + "\n"


def _gauges(lines: list[str], labels: str, engine: Engine) -> None:
    replica = engine.counters
    blocks = int(replica.kv_blocks)
    _series(lines, "num_requests_running", "gauge", [(labels, engine.running)])
    _series(lines, "num_requests_waiting", "gauge", [(labels, engine.waiting)])
    _series(
        lines,
        "num_requests_waiting_by_reason",
        "gauge",
        [(f'{labels},reason="capacity"', engine.waiting), (f'{labels},reason="deferred"', 0)],
    )
    _series(lines, "kv_cache_usage_perc", "gauge", [(labels, 1 - engine.free_blocks / blocks)])
    config = (
        f'block_size="{replica.block_tokens}",enable_prefix_caching="{bool(replica.prefix_caching)}",engine="0",'
        f'num_gpu_blocks="{blocks + 1}"'  # vLLM counts the block that it keeps for itself
    )
    _series(lines, "cache_config_info", "gauge", [(config, 1)])


def _counters(lines: list[str], labels: str, engine: Engine, model: str) -> None:
    replica, tally = engine.counters, engine.tally
    finished = {**tally.finished, "abort": tally.aborted}
    counts = {
        "prefix_cache_queries": replica.asked_tokens,
        "prefix_cache_hits": replica.hit_tokens,
        "num_preemptions": replica.preemptions,
        "prompt_tokens": tally.prompt_tokens,
        "prompt_tokens_cached": tally.cached_tokens,
        "generation_tokens": tally.tokens,
    }
    for name, count in counts.items():
        _series(lines, name, "counter", [(labels, int(count))])
    computed = tally.prompt_tokens - tally.cached_tokens
    sources = {"local_compute": computed, "local_cache_hit": tally.cached_tokens, "external_kv_transfer": 0}
    told = [(f'{labels},source="{source}"', count) for source, count in sources.items()]
    _series(lines, "prompt_tokens_by_source", "counter", told)
    ends = [(f'{labels},finished_reason="{reason}"', finished.get(reason, 0)) for reason in REASONS]
    _series(lines, "request_success", "counter", ends)
    refused = [(f'model_name="{_escaped(model)}",reason="{reason}"', 0) for reason in REJECTIONS]
    _series(lines, "admission_rejections", "counter", refused)


def _histograms(lines: list[str], labels: str, engine: Engine) -> None:
    tally = engine.tally
    histograms: dict[str, Histogram] = {
        "time_to_first_token_seconds": tally.first_token,
        "request_time_per_output_token_seconds": tally.token_time,
        "e2e_request_latency_seconds": tally.whole,
        "request_queue_time_seconds": tally.queue,
        "request_inference_time_seconds": tally.inference,
        "request_prefill_time_seconds": tally.prefill,
        "request_decode_time_seconds": tally.decode,
        "request_prompt_tokens": tally.prompt_lengths,
        "request_generation_tokens": tally.answer_lengths,
        "request_max_num_generation_tokens": tally.answer_lengths,
        "request_params_max_tokens": tally.most_lengths,
        "request_prefill_kv_computed_tokens": tally.computed_lengths,
        "request_num_preemptions": tally.preemptions,
    }
    for name, one in histograms.items():
        _histogram(lines, labels, name, one.bounds, one.counts, one.total)
    late = tally.lateness
    _histogram(lines, labels, "emulated_lateness_seconds", late.bounds, late.counts, late.total, "kilocard")


def _series(lines: list[str], name: str, kind: str, values: Iterable[tuple[str, float]]) -> None:
    sample = f"vllm:{name}_total" if kind == "counter" else f"vllm:{name}"
    lines += [f"# HELP {sample} As vLLM's; emulated.", f"# TYPE {sample} {kind}"]
    lines += [f"{sample}{{{labels}}} {float(value)}" for labels, value in values]


def _histogram(
    lines: list[str],
    labels: str,
    name: str,
    bounds: Sequence[float],
    counts: Sequence[int],
    total: float,
    owner: str = "vllm",
) -> None:
    sample = f"{owner}:{name}"
    lines += [f"# HELP {sample} As vLLM's; emulated.", f"# TYPE {sample} histogram"]
    sums = list(accumulate(counts))
    edges = [*(str(float(bound)) for bound in bounds), "+Inf"]
    lines += [
        f'{sample}_bucket{{{labels},le="{edge}"}} {float(count)}'
        for edge, count in zip(edges, sums, strict=True)
    ]
    lines += [f"{sample}_count{{{labels}}} {float(sums[-1])}", f"{sample}_sum{{{labels}}} {float(total)}"]


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
