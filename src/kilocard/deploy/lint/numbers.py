"""Mistakes about what is measured: what scales by what, and which series are asked for."""

from __future__ import annotations

import json
import re

from kilocard.deploy.lint.manifests import Object, at, mapping, rows
from kilocard.deploy.lint.world import Found, World

GONE = {
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:cpu_cache_usage_perc": "nothing: there is no such cache any more",
    "vllm:time_per_output_token_seconds": "vllm:request_time_per_output_token_seconds",
    "vllm:num_requests_swapped": "nothing: nothing is swapped any more",
    "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
    "vllm:gpu_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
    "vllm:avg_generation_throughput_toks_per_s": "rate(vllm:generation_tokens_total[5m])",
    "vllm:avg_prompt_throughput_toks_per_s": "rate(vllm:prompt_tokens_total[5m])",
}
"""Series of former versions, and what tells the same today (vLLM 0.32)."""
_ESCAPED = re.compile(
    r"\bvllm_(?:num_requests|kv_cache|time_to_first|generation_tokens|prompt_tokens|e2e_request)\w*"
)
_ENGINE_QUEUE = re.compile(r"vllm:num_requests_waiting\b")
REMOVED = {
    ("policy/v1beta1", "PodDisruptionBudget"): "policy/v1",
    ("autoscaling/v2beta1", "HorizontalPodAutoscaler"): "autoscaling/v2",
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"): "autoscaling/v2",
    ("extensions/v1beta1", "Deployment"): "apps/v1",
    ("apps/v1beta1", "Deployment"): "apps/v1",
    ("apps/v1beta2", "Deployment"): "apps/v1",
    ("networking.k8s.io/v1beta1", "Ingress"): "networking.k8s.io/v1",
    ("extensions/v1beta1", "Ingress"): "networking.k8s.io/v1",
}
SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


def it_scales_by_the_processor(world: World) -> Found:
    """An engine's CPU is as busy with one request as with a hundred."""
    for scaler in world.of_kind("HorizontalPodAutoscaler"):
        target = _target(world, scaler)
        for metric in rows(scaler.spec.get("metrics")):
            name = at(metric, "resource", "name")
            if name in ("cpu", "memory") and target is not None and world.serves(target):
                yield (
                    scaler,
                    (
                        "fault",
                        f"it scales {target} by {name}, which says nothing of a card's load: by what waits "
                        "and "
                        "runs at the gateway over the caps",
                    ),
                )


def it_scales_by_a_queue_that_is_empty(world: World) -> Found:
    """Behind a gateway that holds back, an engine never queues."""
    for scaler in world.of_kind(*SCALERS):
        if _ENGINE_QUEUE.search(json.dumps(scaler.content, default=str)):
            yield (
                scaler,
                (
                    "risk",
                    "it scales by vllm:num_requests_waiting, which stays near 0 behind a gateway that "
                    "holds back: "
                    "by the gateway's line and what is in flight",
                ),
            )


def two_scale_the_same(world: World) -> Found:
    """They undo each other's work."""
    seen: dict[str, Object] = {}
    for scaler in world.of_kind(*SCALERS):
        key = f"{scaler.namespace}/{at(scaler.spec, 'scaleTargetRef', 'name')}"
        if key in seen:
            yield scaler, ("fault", f"{seen[key]} scales the same: they undo each other's work; keep one")
        seen.setdefault(key, scaler)


def the_number_is_fixed_and_scaled(world: World) -> Found:
    """Each apply sets the number back."""
    for scaler in world.of_kind(*SCALERS):
        target = _target(world, scaler)
        if target is None:
            yield scaler, ("fault", "what it scales is in none of these files: a name differs")
        elif "replicas" in target.spec:
            yield (
                scaler,
                ("risk", f"{target} says replicas, too: each apply sets it back; leave them out there"),
            )


def series_are_called_otherwise_now(world: World) -> Found:
    """A rule over a series that is gone never fires, and nobody sees that."""
    for owner in world.objects:
        text = json.dumps(owner.content, default=str)
        for name, now in GONE.items():
            if re.search(rf"{name}\b", text):
                yield owner, ("fault", f"{name} is gone: what asks for it finds nothing; today it is {now}")
        if found := _ESCAPED.search(text):
            yield (
                owner,
                (
                    "fault",
                    f"{found[0]} has an underscore where vLLM writes a colon: it finds nothing, unless your "
                    "Prometheus escapes names; ask for scrape_protocols: [PrometheusText0.0.4] and vllm:",
                ),
            )


def its_api_is_gone(world: World) -> Found:
    """Kubernetes refuses it."""
    for owner in world.objects:
        version = str(owner.content.get("apiVersion", ""))
        if now := REMOVED.get((version, owner.kind)):
            yield owner, ("fault", f"{version} is no longer served: write {now}")


def _target(world: World, scaler: Object) -> Object | None:
    wanted = mapping(scaler.spec.get("scaleTargetRef"))
    kind = str(wanted.get("kind") or "Deployment")
    return next(
        (
            it
            for it in world.objects
            if it.kind == kind and it.name == wanted.get("name") and it.namespace == scaler.namespace
        ),
        None,
    )


RULES = {
    "scaled-by-processor": it_scales_by_the_processor,
    "scaled-by-empty-queue": it_scales_by_a_queue_that_is_empty,
    "scaled-twice": two_scale_the_same,
    "fixed-and-scaled": the_number_is_fixed_and_scaled,
    "series-gone": series_are_called_otherwise_now,
    "api-gone": its_api_is_gone,
}
