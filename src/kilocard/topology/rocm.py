"""What `rocm-smi --showtopo` prints, as the same value."""

from __future__ import annotations

import re

from kilocard.errors import KilocardError
from kilocard.topology.matrix import CARD, TopologyMatrix

Table = dict[str, dict[str, str]]
LINKS, HOPS = "Link Type between two GPUs", "Hops between two GPUs"
NUMA = re.compile(r"GPU\[(\d+)\]\s*:\s*\(Topology\)\s*Numa Node:\s*(-?\d+)", re.ASCII)


def parse_rocm_topology(text: str) -> TopologyMatrix:
    """The cards' links, XGMI where two are wired to each other, and the NUMA node of each; it names no NIC.

    Over PCIe, 2 hops are one CPU socket and 3 are two (AMD's guide to the MI200): NODE and SYS here.
    """
    kinds, hops = _table(text, LINKS), _table(text, HOPS)
    if not kinds:
        raise KilocardError("no table of link types in this text: give what `rocm-smi --showtopo` prints")
    cards = tuple(kinds)
    nodes = {f"GPU{card}": int(node) for card, node in NUMA.findall(text)}
    return TopologyMatrix(
        cards=cards,
        card_links=tuple(tuple(_link(a, b, kinds, hops) for b in cards) for a in cards),
        nic_links=((),) * len(cards),
        cores=(None,) * len(cards),
        numa_nodes=tuple(node if (node := nodes.get(card, -1)) >= 0 else None for card in cards),
    )


def _link(a: str, b: str, kinds: Table, hops: Table) -> str:
    if a == b:
        return "X"
    far = hops.get(a, {}).get(b, "")
    if kinds[a].get(b) == "XGMI":
        return "XGMI" if far in ("", "1") else "NODE"
    return "SYS" if far.isdigit() and int(far) >= 3 else "NODE"


def _table(text: str, title: str) -> Table:
    """The cells under a title, by card and card."""
    _, _, after = text.partition(title)
    rows: dict[str, list[str]] = {}
    for line in after.splitlines()[1:]:
        cells = line.split()
        if line.startswith("="):
            break
        if len(cells) > 1 and CARD.fullmatch(cells[0]) and not CARD.fullmatch(cells[1]):
            rows[cells[0]] = cells[1:]
    if any(len(cells) != len(rows) for cells in rows.values()):
        raise KilocardError(f"the table {title!r} has {len(rows)} rows, and a row of another length")
    return {card: dict(zip(rows, cells, strict=True)) for card, cells in rows.items()}
