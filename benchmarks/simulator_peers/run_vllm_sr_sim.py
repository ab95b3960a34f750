"""vllm-sr-sim on a load: its computed profile of Llama-3.1-8B on an H100, least loaded, at most 256 at once.

Contexts of 1,024 give it the 256 slots; a chunk of 512 is the prompt, which it prices at its best.
"""

from clock import latencies, measure
from fleet_sim import (
    H100_SXM,
    LLAMA_3_1_8B,
    Fleet,
    FleetConfig,
    PoolConfig,
    ProfileBuilder,
    Request,
    ServingConfig,
)


def prepare(load, arrival_s):
    """A fleet, and its requests."""
    prompt, output = load["prompt_tokens"], load["output_tokens"]
    serving = ServingConfig(
        tp=1, chunk=prompt, max_slots=load["max_num_seqs"], mean_ctx_tokens=prompt + output
    )
    profile = ProfileBuilder().build(hw=H100_SXM, model=LLAMA_3_1_8B, cfg=serving)
    pool = PoolConfig("all", profile, load["replicas"], load["context_tokens"], lb_strategy="least_loaded")
    requests = [(at_s, Request(number, at_s, prompt, output)) for number, at_s in enumerate(arrival_s)]
    return Fleet(FleetConfig(pools=[pool])), requests


def simulate(prepared):
    """Run it."""
    fleet, requests = prepared
    return fleet.run(requests)


def predicted(prepared, done):
    """It has no steps."""
    ended = done.completed
    return latencies([r.ttft for r in ended], [r.tpot for r in ended], [r.e2e_latency for r in ended])


measure(prepare, simulate, predicted)
