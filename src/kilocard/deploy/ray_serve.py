"""The same pools as a Ray Serve application: for those who run Ray already."""

from __future__ import annotations

from typing import Any

import yaml

from kilocard.specs.cluster import ClusterSpec, Pool, Secret

HEAD = "# Rendered from the cluster file {name}: change that one, not this. `serve deploy ray_serve.yaml`\n"
KEYS = (
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
    "block_size",
    "enable_prefix_caching",
    "enforce_eager",
    "seed",
)
"""Engine settings that Ray hands to vLLM under the same names."""

ACCELERATORS = {
    "a100-sxm-80gb": "A100-80G",
    "h100-sxm": "H100",
    "h100-pcie": "H100",
    "h200-sxm": "H200",
    "b200-sxm": "B200",
    "l40s": "L40S",
    "l4": "L4",
    "mi300x": "AMD-Instinct-MI300X-OAM",
}
"""Ray's names: https://docs.ray.io/en/latest/serve/api/doc/ray.serve.llm.LLMConfig.html. A card that has none
there is left to whoever places the replicas."""


def render(spec: ClusterSpec) -> str:
    """One application, an LLM config a pool. Ray's own router takes the gateway's place: caps and replicas
    carry over; priorities, keys, limits and canaries do not."""
    application = {
        "name": spec.name,
        "route_prefix": "/",
        "import_path": "ray.serve.llm:build_openai_app",
        "args": {"llm_configs": [_config(spec, pool) for pool in spec.pools if pool.count]},
    }
    http = {"host": spec.gateway.host, "port": spec.gateway.port}
    told = {"proxy_location": "EveryNode", "http_options": http, "applications": [application]}
    return HEAD.format(name=spec.name) + yaml.safe_dump(told, sort_keys=False, width=110)


def _config(spec: ClusterSpec, pool: Pool) -> dict[str, Any]:
    engine = spec.engine_of(pool).model_dump(exclude_defaults=True)
    scaling = pool.scaling
    number = {"autoscaling_config": _scaled(pool)} if scaling else {"num_replicas": pool.count}
    environment = {
        name: value
        for name, value in pool.engine.over(spec.engine).environment.items()
        if not isinstance(value, Secret)
    }
    return {
        "model_loading_config": {"model_id": _id(spec, pool), "model_source": spec.engine_of(pool).model},
        **({"accelerator_type": ACCELERATORS[pool.card]} if pool.card in ACCELERATORS else {}),
        "engine_kwargs": {name: engine[name] for name in KEYS if name in engine},
        "deployment_config": {
            **number,
            "max_ongoing_requests": pool.cap or 1024,
            "graceful_shutdown_timeout_s": spec.lifecycle.drain_s,
            "health_check_period_s": spec.gateway.health.probe.every_s,
            "health_check_timeout_s": spec.gateway.health.probe.timeout_s,
        },
        **({"runtime_env": {"env_vars": environment}} if environment else {}),
    }


def _scaled(pool: Pool) -> dict[str, Any]:
    assert pool.scaling is not None
    return {
        "min_replicas": pool.scaling.least,
        "max_replicas": pool.scaling.most,
        "target_ongoing_requests": round(pool.scaling.up.utilization * (pool.cap or 1024)),
        "upscale_delay_s": pool.scaling.up.grows_s,
        "downscale_delay_s": pool.scaling.down.for_s,
    }


def _id(spec: ClusterSpec, pool: Pool) -> str:
    """Ray tells applications apart by their model: a second pool of one gets its own name."""
    first = next(it for it in spec.pools if spec.model_of(it) == spec.model_of(pool))
    return spec.model_of(pool) if first is pool else f"{spec.model_of(pool)}-{pool.name}"
