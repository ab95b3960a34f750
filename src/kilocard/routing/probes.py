"""When a gateway probes a replica or reads its metrics, so that many gateways never storm together.

Each pair of a gateway and a replica has its own moment in a period: nothing is agreed on but the clock.
"""

from __future__ import annotations

from math import floor

from kilocard.errors import KilocardError
from kilocard.routing.health import Health, HealthRule, State

LATE_SHARE = 0.1
"""Of a period: a timer that fires early does not probe twice for one moment."""
MOST_DOUBLINGS = 30


def probe_period_s(health: Health, rule: HealthRule, replicas: int, gateways: int) -> float:
    """Seconds between two probes of a replica by one gateway, as many as the budget of all allows."""
    if health.state is State.DOWN:
        doublings = min(MOST_DOUBLINGS, max(0, health.falls - 1) + health.tries)
        wanted_s = min(rule.most_interval_s, rule.down_interval_s * 2**doublings)
    else:
        wanted_s = rule.down_interval_s if health.state is State.STARTING else rule.interval_s
    return max(wanted_s, replicas * gateways / rule.most_probes_per_s)


def probe_delay_s(
    health: Health,
    rule: HealthRule,
    *,
    replica: int,
    replicas: int,
    gateway: int,
    gateways: int,
    shared_s: float,
) -> float:
    """Seconds from now to the next probe of a replica; the rest as in `turn_delay_s`."""
    return turn_delay_s(
        probe_period_s(health, rule, replicas, gateways),
        replica=replica,
        replicas=replicas,
        gateway=gateway,
        gateways=gateways,
        shared_s=shared_s,
    )


def turn_delay_s(
    period_s: float, *, replica: int, replicas: int, gateway: int, gateways: int, shared_s: float
) -> float:
    """Seconds from now to the moment, once a period, that replica number `replica` (of `replicas` in all
    pools) has with gateway number `gateway`; `shared_s` is a clock that all gateways have, such as the time
    of day."""
    if not (0 <= replica < replicas and 0 <= gateway < gateways):
        raise KilocardError(
            f"replica {replica} of {replicas} and gateway {gateway} of {gateways}: count both from 0"
        )
    phase = (gateway * replicas + replica) / (gateways * replicas)
    turns = shared_s / period_s + LATE_SHARE - phase
    return (floor(turns) + 1 - turns + LATE_SHARE) * period_s
