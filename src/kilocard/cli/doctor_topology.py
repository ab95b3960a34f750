"""What the doctor says of the wiring of a box."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kilocard.cli.output import plain
from kilocard.errors import KilocardError
from kilocard.topology import Finding, Host, TopologyMatrix, advise, pinning_of, read_host, read_matrix
from kilocard.topology.card_advice import nearest_nics


def topology(ranks: int | None, hung: str = "") -> dict[str, Any]:
    """Nodes, cores, cards, links, NICs and findings of this box, for JSON; a tool that hung is not asked."""
    host = read_host()
    matrix, unread = _matrix(hung)
    return {
        "numa": [asdict(node) for node in host.nodes],
        "cores": {
            "usable": host.cores,
            "physical": host.physical_cores,
            "siblings": host.siblings,
            "quota_cores": host.quota_cores,
        },
        "cards": _cards(matrix, host) if matrix else [],
        "links": matrix.card_links if matrix else [],
        "nics": [asdict(nic) for nic in host.nics],
        "findings": [asdict(finding) for finding in [*unread, *advise(matrix, host, ranks)]],
    }


def _matrix(hung: str) -> tuple[TopologyMatrix | None, list[Finding]]:
    try:
        if hung:
            raise KilocardError(hung)
        return read_matrix(), []
    except KilocardError as error:
        means = "how the cards are linked is not known here"
        return None, [Finding("links", str(error), means, "run `nvidia-smi topo -m` yourself")]


def said(found: dict[str, Any]) -> str:
    """The findings as lines: what is there, what it means, what to do."""
    lines = []
    for finding in found["findings"]:
        lines.append(f"{finding['about']:<23} {finding['found']}")
        lines.append(f"{'':<23} means: {finding['means']}")
        if finding["change"]:
            lines.append(f"{'':<23} -> {finding['change']}")
    return plain("\n".join(lines))


def _cards(matrix: TopologyMatrix, host: Host) -> list[dict[str, Any]]:
    pinned = pinning_of(matrix, host)
    return [
        {
            "name": name,
            "numa_node": matrix.numa_nodes[card],
            "cores": matrix.cores[card],
            "pin": pinned[name],
            "nearest_nics": nearest_nics(matrix, card)[1] if matrix.nics else [],
        }
        for card, name in enumerate(matrix.cards)
    ]
