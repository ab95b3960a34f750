"""A cluster's gateways, as their admin ports answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kilocard.launch import web
from kilocard.specs.cluster import ClusterSpec
from kilocard.specs.cluster.parts import joined

TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class GatewaySeat:
    """One gateway: its number, and its admin port on this machine."""

    number: int
    admin: str
    key: str = field(default="", repr=False)

    def rows(self) -> list[dict[str, Any]] | None:
        """Its replicas as it sees them; None where it does not answer."""
        try:
            told = web.get_json(f"{self.admin}/replicas", TIMEOUT_S, self.key)
            return [row for row in told["replicas"] if isinstance(row, dict)]
        except (web.NoAnswerError, LookupError, TypeError):
            return None

    def reload(self) -> str:
        """Have it read its file; what it says against it, "" where it has done so."""
        try:
            web.post_json(f"{self.admin}/reload", {}, TIMEOUT_S, self.key)
        except web.NoAnswerError as error:
            return str(error)
        return ""


def seats_of(spec: ClusterSpec, key: str = "") -> list[GatewaySeat]:
    """All gateways of the file, which `up` starts on this machine."""
    door = spec.gateway.admin
    return [
        GatewaySeat(number, f"http://{joined(door.host, door.port + number)}", key)
        for number in range(spec.gateway.gateways)
    ]


def in_flight(rows: list[dict[str, Any]]) -> Counter[str]:
    """Requests in flight by replica; one that leaves counts until it is gone."""
    counted: Counter[str] = Counter()
    for row in rows:
        counted[str(row["id"])] += int(row["in_flight"])
    return counted
