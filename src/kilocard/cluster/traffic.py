"""The flows of a scenario drawn into one table of requests, each with the pool that is meant for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilocard.fleet.traffic import NOBODY, Paths, Traffic, draw_traffic
from kilocard.routing.pools import PoolRule, role_for
from kilocard.specs.cluster import CLASSES, ClusterSpec
from kilocard.specs.scenario import Flow, Scenario

HIDDEN = "buffer"


@dataclass(frozen=True, slots=True)
class Asked:
    """All flows in one; by request, the pool that is meant for it, and its flow."""

    traffic: Traffic
    home: NDArray[np.int16]
    flow: NDArray[np.int16]


def draw(scenario: Scenario) -> Asked:
    """Every flow with a seed of its own; who arrives when is the same whatever the cluster is."""
    drawn = [
        draw_traffic(flow, scenario.seed + 7919 * number) for number, flow in enumerate(scenario.traffic)
    ]
    homes = [
        _homes(scenario.cluster, flow, traffic) for flow, traffic in zip(scenario.traffic, drawn, strict=True)
    ]
    flows = [np.full(len(traffic), number, np.int16) for number, traffic in enumerate(drawn)]
    if len(drawn) == 1:
        return Asked(drawn[0], homes[0], flows[0])
    return Asked(_together(drawn), np.concatenate(homes), np.concatenate(flows))


def _homes(spec: ClusterSpec, flow: Flow, traffic: Traffic) -> NDArray[np.int16]:
    """As a gateway's placing has it: by role, among the pools of the model."""
    model = flow.model or spec.model
    pools = [p for p, pool in enumerate(spec.pools) if spec.model_of(pool) == model and pool.role != HIDDEN]
    roles = {spec.pools[p].role for p in pools}
    if len(pools) == 1:
        return np.full(len(traffic), pools[0], np.int16)
    rule = PoolRule(spec.gateway.long_tokens)
    is_long = traffic.prompt_tokens + traffic.output_tokens >= spec.gateway.long_tokens
    is_batch = traffic.priority == len(CLASSES) - 1
    home = np.zeros(len(traffic), np.int16)
    for long in (False, True):
        for batch in (False, True):
            tokens = spec.gateway.long_tokens if long else 0
            role = role_for(roles, rule, tokens, is_batch=batch, is_multimodal=flow.images)
            meant = next(p for p in pools if spec.pools[p].role == role)
            home[(is_long == long) & (is_batch == batch)] = meant
    return home


def _together(drawn: list[Traffic]) -> Traffic:
    """One table after the other; streams of two flows are never the same."""
    offsets = np.cumsum([0, *(len(traffic) for traffic in drawn)])
    paths, steps, streams = [], 0, 0
    for traffic in drawn:
        own = traffic.paths
        paths.append((own.starts + steps, own.lengths, own.streams + streams, own.end_tokens))
        steps += len(own.streams)
        streams += int(own.streams.max()) + 1 if len(own.streams) else 0
    columns = {
        name: np.concatenate([getattr(traffic, name) for traffic in drawn])
        for name in ("arrival_s", "prompt_tokens", "output_tokens", "stage", "priority", "gap_s")
    }
    follows = [
        np.where(traffic.follows == NOBODY, NOBODY, traffic.follows + offset)
        for traffic, offset in zip(drawn, offsets, strict=False)
    ]
    return Traffic(
        **columns,
        follows=np.concatenate(follows),
        paths=Paths(*(np.concatenate(column) for column in zip(*paths, strict=True))),
    )
