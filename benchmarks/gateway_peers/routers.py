"""vllm-router, smg and sglang-router: gateways made for engines, each with all its policies that apply."""

from __future__ import annotations

from collections.abc import Callable

from peer_environment import Peer

from gateway_peers.place import Command, Gateway, Place

VLLM_ROUTER = Peer("vllm-router", "0.1.17")
SMG = Peer("smg", "1.13.0")
SGLANG_ROUTER = Peer("sglang-router", "0.3.2")
CHAT = frozenset({"chat"})
POWER_BY = "--power-of-two-load-metric"
POLL_S = "1"
"""smg's shortest interval between looks at the engines' own load."""


def router(peer: Peer, *arguments: str) -> Callable[[Place], Command]:
    """All three take the same flags."""

    def command(place: Place) -> Command:
        argv = [
            str(peer.python().parent / peer.package), *(() if peer is VLLM_ROUTER else ("launch",)),
            "--host", "127.0.0.1", "--port", str(place.port), "--prometheus-port", str(place.metrics_port),
            "--prometheus-host", "127.0.0.1",
            "--worker-urls", *place.urls,
            "--log-level", "error", "--policy", *arguments,
        ]  # fmt: skip
        return Command(argv)

    return command


def _of(
    peer: Peer, policy: str, *more: str, named: str = "", settings: frozenset[str] = frozenset()
) -> Gateway:
    def version() -> str:
        peer.python()
        return peer.version

    return Gateway(peer.package, named or policy, router(peer, policy, *more), version, settings)


def _smg(policy: str, *more: str, named: str = "", settings: frozenset[str] = frozenset()) -> Gateway:
    return _of(SMG, policy, "--load-monitor-interval", POLL_S, *more, named=named, settings=settings)


ROUTERS = (
    _of(VLLM_ROUTER, "power_of_two"),
    _of(VLLM_ROUTER, "round_robin"),
    _of(VLLM_ROUTER, "random"),
    _of(VLLM_ROUTER, "cache_aware"),
    _of(VLLM_ROUTER, "consistent_hash", settings=CHAT),
    _of(VLLM_ROUTER, "sticky_least_loaded"),
    _smg("power_of_two"),
    _smg("power_of_two", POWER_BY, "least_requests", named="power_of_two, least_requests"),
    _smg("power_of_two", POWER_BY, "requests", named="power_of_two, requests"),
    _smg("least_load"),
    _smg("round_robin"),
    _smg("random"),
    _smg("cache_aware"),
    _smg("prefix_hash", settings=CHAT),
    _smg("consistent_hashing", "--routing-key-headers", "x-session-id", settings=CHAT),
    _smg("least_load", "--sticky-sessions", "--routing-key-headers", "x-session-id",
         named="least_load, sticky sessions", settings=CHAT),
    _of(SGLANG_ROUTER, "power_of_two"),
    _of(SGLANG_ROUTER, "round_robin"),
    _of(SGLANG_ROUTER, "random"),
    _of(SGLANG_ROUTER, "cache_aware"),
)  # fmt: skip
