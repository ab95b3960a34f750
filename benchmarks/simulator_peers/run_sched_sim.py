"""sched-sim on a load: its H100 with the 8B model of its A100 preset, chunked prefill, vLLM's limits.

The shipped H100 preset is a 70B in 16 bits on 80 GB, which never ends. Its prefix cache stays off: with it
on, every admission walks all cached blocks, and 2,000 requests did not end within a minute.
"""

from clock import latencies, measure
from sched_sim.core.event_engine import Simulator
from sched_sim.core.request import Request
from sched_sim.hardware.presets import PRESETS
from sched_sim.schedulers.factory import create_scheduler

MODEL = (
    "model_name", "parameter_count_billions", "num_layers", "hidden_size", "num_heads", "num_kv_heads",
    "head_dim", "dtype_bytes",
)  # fmt: skip
HARDWARE = PRESETS["h100"].model_copy(update={name: getattr(PRESETS["a100"], name) for name in MODEL})


def prepare(load, arrival_s):
    """One engine, and its requests."""
    if load["replicas"] != 1:
        raise SystemExit("sched-sim simulates one replica only")
    limits = {"token_budget": load["max_num_batched_tokens"], "max_batch_size": load["max_num_seqs"]}
    simulator = Simulator(HARDWARE, create_scheduler("chunked", HARDWARE, **limits))
    simulator.submit_workload(
        [
            Request(
                request_id=str(number),
                arrived_at=at_s,
                prompt_tokens=load["prompt_tokens"],
                output_tokens=load["output_tokens"],
            )
            for number, at_s in enumerate(arrival_s)
        ]
    )
    return simulator


def predicted(simulator, done):
    """It gives the first token for free: `output_tokens` more follow it."""
    ended = [r for r in simulator.all_requests if r.completed_at is not None]
    means = latencies([r.ttft for r in ended], [r.tpot for r in ended], [r.e2e_latency for r in ended])
    return means | {"steps": done.total_iterations, "preemptions": done.preempted_requests_count}


measure(prepare, Simulator.run, predicted)
