"""Vidur on a load: its Sarathi scheduler (chunked prefill), vLLM's limits, its native predictor, no metrics.

Its profiles of cards are downloads that a closed network does not have, so its tables of step times are
filled with Kilocard's: what is compared is its scheduler and its speed. Its "least outstanding" counts those
who wait and not those who run, which heaps the load on a few replicas; unless the load asks for that as
shipped, it counts both here, as least active does.
"""

import csv
import logging
from pathlib import Path

from clock import latencies, measure
from vidur.config import config as settings
from vidur.execution_time_predictor.sklearn_execution_time_predictor import SklearnExecutionTimePredictor
from vidur.scheduler.replica_scheduler.base_replica_scheduler import BaseReplicaScheduler
from vidur.simulator import Simulator

MS = 1e-9  # in a picosecond
LAYERS = 32
KV_STEP = 64
ZERO = (
    "attn_pre_proj", "attn_post_proj", "mlp_down_proj", "mlp_act", "input_layernorm",
    "post_attention_layernorm", "add", "attn_rope", "attn_kv_cache_save",
)  # fmt: skip

logging.disable(logging.WARNING)


def tables(load):
    """Milliseconds a layer by operation: everything that depends on tokens alone as one of them."""
    cost, base_ps = load["step_ps"], load["step_ps"]["base_ps"]
    last = len(base_ps) - 1
    tokens = range(last + 9)
    kv = range(0, load["context_tokens"] + 1, KV_STEP)

    def decode_ps(batch, kv_tokens):
        return batch * (cost["sequence_ps"] + kv_tokens * cost["kv_token_ps"])

    def prefill_ps(kv_tokens, chunk):
        attended = chunk * (chunk + 1) // 2
        read_ps = kv_tokens * cost["kv_token_ps"] + attended * cost["pair_ps"]
        return cost["prefill_step_ps"] + cost["sequence_ps"] + read_ps

    return {
        **{name: {(count,): 0.0 for count in tokens} for name in ZERO},
        "mlp_up_proj": {(count,): base_ps[min(count, last)] * MS / LAYERS for count in tokens},
        "attn_decode": {
            (batch, held): decode_ps(batch, held) * MS / LAYERS
            for batch in range(1, load["max_num_seqs"] + 1)
            for held in kv
        },
        "attn_prefill": {
            (held, chunk): prefill_ps(held, chunk) * MS / LAYERS
            for held in kv
            for chunk in range(32, last + 1, 32)
        },
    }


def trace(load, arrival_s):
    """The requests in the form that it replays."""
    with Path("trace.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("Date", "Time", "PromptTokenCount", "CompletionTokenCount"))
        rows.writerows(("day", at_s, load["prompt_tokens"], load["output_tokens"]) for at_s in arrival_s)
    return settings.TraceRequestGeneratorConfig(
        trace_file="trace.csv", date="day", prefill_scale_factor=1, time_scale_factor=1,
        max_tokens=load["context_tokens"],
    )  # fmt: skip


def prepare(load, arrival_s):
    """A simulator, and its requests."""
    filled = tables(load)
    SklearnExecutionTimePredictor._load_predictions_from_hf = lambda self: filled
    if not load["as_shipped"]:
        BaseReplicaScheduler.num_pending_requests = property(
            lambda self: len(self._request_queue) + len(self._allocation_map)
        )
    cluster = settings.ClusterConfig(
        num_replicas=load["replicas"],
        replica_config=settings.ReplicaConfig(num_pipeline_stages=1, tensor_parallel_size=1),
        cache_config=settings.CacheConfig(
            block_size=load["block_tokens"], num_blocks=load["kv_blocks"], watermark_blocks_fraction=0
        ),
        global_scheduler_config=settings.LORGlobalSchedulerConfig(),
        replica_scheduler_config=settings.SarathiSchedulerConfig(
            batch_size_cap=load["max_num_seqs"], chunk_size=load["max_num_batched_tokens"]
        ),
    )
    predictor = settings.RandomForrestExecutionTimePredictorConfig(
        kv_cache_prediction_granularity=KV_STEP, prediction_max_batch_size=load["max_num_seqs"],
        prediction_max_tokens_per_request=load["context_tokens"],
        attention_decode_batching_overhead_fraction=0.0, use_native_execution_time_predictor=True,
    )  # fmt: skip
    simulator = Simulator(
        settings.SimulationConfig(
            cluster_config=cluster,
            request_generator_config=trace(load, arrival_s),
            execution_time_predictor_config=predictor,
            metrics_config=settings.MetricsConfig(
                write_metrics=False, enable_chrome_trace=False, store_plots=False
            ),
        )
    )
    return simulator, [event._request for _, event in simulator._event_queue]


def predicted(prepared, _):
    """What it says of each request."""
    ended = [request for request in prepared[1] if request.completed]
    first_s = [r.prefill_completed_at for r in ended]
    return latencies(
        [at_s - r.arrived_at for r, at_s in zip(ended, first_s, strict=True)],
        [(r.completed_at - at_s) / (r.num_decode_tokens - 1) for r, at_s in zip(ended, first_s, strict=True)],
        [r.completed_at - r.arrived_at for r in ended],
    )


measure(prepare, lambda prepared: prepared[0].run(), predicted)
