"""What is no fault of a cluster file, and yet may surprise somebody at night."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kilocard.specs.cluster.spec import ClusterSpec


@dataclass(frozen=True, slots=True)
class Remark:
    """Of which key, and what comes of it."""

    key: str
    told: str

    def __str__(self) -> str:
        return f"{self.key}: {self.told}"


def remarks(spec: ClusterSpec) -> Iterator[Remark]:
    """All of them."""
    if spec.gateway.gateways == 1 and any(pool.count for pool in spec.pools):
        yield Remark(
            "gateway.gateways",
            "there is one, and `kilocard up` ends it before it starts another: while its port, its doors or "
            "the number of gateways change, or when it dies, clients find nobody for seconds; two behind the "
            "balancer are replaced one after the other",
        )
