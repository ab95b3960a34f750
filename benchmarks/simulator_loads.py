"""What the simulators are asked: Llama-3.1-8B on an H100 a replica, 512 tokens in, 200 out, Poisson."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kilocard.specs import Case, case_from

PROMPT_TOKENS, OUTPUT_TOKENS, CONTEXT_TOKENS = 512, 200, 1024
RATE_PER_REPLICA_S = 10


@dataclass(frozen=True, slots=True)
class Load:
    """Replicas at 10 requests/s each, and how many requests; `pressed` shares prompts and is short of KV."""

    replicas: int
    requests: int
    pressed: bool = False

    def case(self, **engine: Any) -> Case:
        """The simulation that the peers are given as well."""
        demand = {
            "rate_per_s": RATE_PER_REPLICA_S * self.replicas, "requests": self.requests,
            "prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS,
        }  # fmt: skip
        if self.pressed:
            demand |= {"system_prompts": {"count": 16, "tokens": 256}}
            engine |= {"kv_blocks": 560}
        return case_from(
            {
                "model": "llama-3.1-8b", "card": "h100-sxm", "replicas": self.replicas,
                "engine": engine, "workload": demand,
            }
        )  # fmt: skip


LOADS = {
    "one replica": Load(1, 10_000),
    "fleet": Load(250, 100_000),
    "fleet, shared prompts, little KV": Load(250, 100_000, pressed=True),
    "1,000 replicas": Load(1000, 1_000_000),
}
QUICK_LOADS = {
    "one replica": Load(1, 1000),
    "fleet": Load(250, 3000),
    "fleet, shared prompts, little KV": Load(250, 20_000, pressed=True),
    "1,000 replicas": Load(1000, 50_000),
}
