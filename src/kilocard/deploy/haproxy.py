"""HAProxy's configuration for the L4 tier: it spreads connections over the gateways, and knows no HTTP but
theirs of /ready.

A gateway that drains answers /ready with 503: it gets no new connection, and keeps those that it has.
"""

from __future__ import annotations

from math import ceil

from kilocard.specs.cluster import ClusterSpec, GatewayPlace
from kilocard.specs.cluster.parts import joined

LONGEST_TIMER_S = 2_000_000
"""HAProxy counts milliseconds in 31 bits."""
FASTEST_CHECK_MS = 100


def render(spec: ClusterSpec) -> str:
    """The whole file, for HAProxy 2.6 or newer.

    In TCP mode its time-outs run while nobody speaks, and the answer to a request that is not streamed is
    silent until it is whole: so they are the longest that a request may take, and the gateway ends what is
    idle.
    """
    return "\n\n".join((_global(spec), _defaults(spec), _frontend(spec), _backend(spec))) + "\n"


def _global(spec: ClusterSpec) -> str:
    own = spec.balancer
    return _section(
        f"# The L4 tier of {spec.name}, rendered from its cluster file: change that one, not this.\nglobal",
        *([f"maxconn {own.connections}"] if own.connections else []),
        "log stdout format raw local0 notice",
        f"stats socket ipv4@127.0.0.1:{own.stats_port} level operator",
        f"hard-stop-after {_longest_s(spec)}s",
    )


def _defaults(spec: ClusterSpec) -> str:
    longest_s = _longest_s(spec)
    return _section(
        "defaults",
        "mode tcp",
        "log global",
        "option dontlognull",
        "option log-health-checks",
        *_keepalive("cli"),
        *_keepalive("srv"),
        "option redispatch 1",
        f"retries {max(1, len(spec.gateway_places))}",
        f"timeout connect {_milliseconds(spec.balancer.connect_s)}",
        f"timeout queue {_milliseconds(max(1.0, spec.gateway.classes.interactive.max_wait_s))}",
        f"timeout check {_milliseconds(spec.balancer.connect_s)}",
        f"timeout client {longest_s}s",
        f"timeout server {longest_s}s",
        f"timeout tunnel {longest_s}s",
    )


def _keepalive(side: str) -> tuple[str, ...]:
    """A peer that is gone without a word is missed after two minutes, however long it may be silent."""
    return (
        f"option {side}tcpka",
        f"{side}tcpka-idle 60s",
        f"{side}tcpka-intvl 10s",
        f"{side}tcpka-cnt 6",
    )


def _frontend(spec: ClusterSpec) -> str:
    own = spec.balancer
    return _section("frontend clients", f"bind {joined(own.host, own.port)}", "default_backend gateways")


def _backend(spec: ClusterSpec) -> str:
    own = spec.balancer
    every_ms = max(FASTEST_CHECK_MS, ceil(1000 * own.check_every_s))
    fast_ms = max(FASTEST_CHECK_MS, every_ms // 4)
    return _section(
        "backend gateways",
        "balance leastconn",
        "option abortonclose",
        "option httpchk",
        "http-check send meth GET uri /ready ver HTTP/1.1 hdr Host gateway hdr Connection close",
        "http-check expect status 200",
        f"default-server check inter {every_ms}ms fastinter {fast_ms}ms fall {own.fall} rise {own.rise} "
        f"maxconn {spec.gateway.limits.connections}",
        *(_server(number, place) for number, place in enumerate(spec.gateway_places)),
    )


def _server(number: int, place: GatewayPlace) -> str:
    check = f" port {place.ready_port}" if place.ready_port else ""
    return f"server gateway-{number} {place}{check}"


def _section(head: str, *lines: str) -> str:
    return "\n    ".join((head, *lines))


def _milliseconds(seconds: float) -> str:
    return f"{max(1, ceil(1000 * seconds))}ms"


def _longest_s(spec: ClusterSpec) -> int:
    return min(LONGEST_TIMER_S, ceil(spec.gateway.longest_s))
