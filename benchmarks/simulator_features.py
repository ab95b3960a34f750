"""What each simulator of the comparison models, read in its source: who is fast by doing less is named."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """One simulator. `level` is step where every engine step has its own batch and time, else request."""

    level: str
    kv_blocks: str
    prefix_cache: str
    preemption: str
    step_time: str
    here: str
    """How it is run in this comparison, and what that costs or spares it."""


FEATURES = {
    "kilocard": Features(
        level="step",
        kv_blocks="paged, allocated as a sequence grows",
        prefix_cache="on: by named streams of tokens, block by block, LRU; by name, not by hashing contents",
        preemption="on: the last running, with recompute",
        step_time="a roofline with coefficients fitted on measurements of real vLLM on H100",
        here=(
            "vLLM V1's scheduler with asynchronous scheduling, chunked prefill, budget 2048, 256 sequences. "
            "Runs of like steps are timed at once by a closed form, equal to step by step to the last bit. "
            "Its times hold the engine's overhead of a request (7.3 ms). It is compiled, the peers are "
            "Python. On the fleet no prompt shares a prefix and KV is ample, so cache and preemption are on "
            "but idle; the load with shared prompts and little KV shows what they cost at work"
        ),
    ),
    "vllm-sr-sim": Features(
        level="request",
        kv_blocks="reserved whole at admission",
        prefix_cache="none",
        preemption="the longest is sent back to the queue, without a cost of its own",
        step_time="a roofline from datasheets",
        here=(
            "A request's times are fixed when it is admitted; later arrivals change nothing. A slot is freed "
            "after a slot's share (1/256) of the service time, so an engine seems all but empty and a step "
            "costs what it does alone: its latencies here are those of batch 1. It also has routing between "
            "pools, cost, power and fleet sizing, which Kilocard does not"
        ),
    ),
    "sched-sim": Features(
        level="step",
        kv_blocks="paged, allocated as a sequence grows",
        prefix_cache="there is one; off here, since with it on each admission walks every cached block",
        preemption="recompute or swap",
        step_time="a roofline from datasheets",
        here=(
            "One replica only. The H100 it ships is loaded with a 70B that never fits, so it has the 8B of "
            "its A100 preset. It writes down every step for a Gantt chart, and makes one token more: the "
            "first comes with the prefill and 200 follow. It also has SJF, SLO-aware and disaggregated "
            "schedulers, and swapping"
        ),
    ),
    "vidur": Features(
        level="step",
        kv_blocks="paged, allocated as a sequence grows",
        prefix_cache="none (a setting without effect in this version)",
        preemption="restart with recompute",
        step_time="learned from profiles, which are downloads: here Kilocard's step times stand in",
        here=(
            "Its Sarathi scheduler, native predictor, no metrics. Its least-outstanding policy counts those "
            "who wait, not those who run; here it counts both, as least active does. It makes no plans "
            "ahead and has no request overhead, so its TTFT is shorter: compare it with the synchronous row, "
            "less 7.3 ms. On the fleet it is given a fifth of the requests, so more of them meet engines "
            "that still fill up. It also has pipeline parallelism and several other schedulers"
        ),
    ),
    "vidur, its own policy": Features(
        level="step",
        kv_blocks="as vidur",
        prefix_cache="as vidur",
        preemption="as vidur",
        step_time="as vidur",
        here=(
            "As shipped, least outstanding heaps the requests on the first replicas in large batches: fewer "
            "steps, so it is faster, but not the fleet that is asked for"
        ),
    ),
}
