"""What a link between two devices of one box is called, and how near it is."""

from __future__ import annotations

import re

SELF = "X"
UNKNOWN = "N/A"
NEARNESS = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")
"""From the nearest to the farthest, as the legend of `nvidia-smi topo -m` orders them."""
MEANINGS = {
    "NV": "NVLink (or XGMI) from card to card",
    "PIX": "one PCIe switch between them",
    "PXB": "several PCIe switches, no CPU, between them",
    "PHB": "through the CPU's PCIe host bridge",
    "NODE": "through two PCIe host bridges of one NUMA node",
    "SYS": "through the wire between two CPU sockets",
}
OLD_NAMES = {"SOC": "SYS", "PSB": "PIX"}
"""What drivers before 2019 wrote."""


def is_link(name: str) -> bool:
    """Whether a cell of a matrix names a link."""
    return name in (SELF, UNKNOWN) or kind_of(name) is not None


def kind_of(name: str) -> str | None:
    """`NV` for NV18 and for AMD's XGMI, else the name itself; None where it is no link."""
    if re.fullmatch(r"NV\d{1,3}|XGMI", name, re.ASCII):
        return "NV"
    name = OLD_NAMES.get(name, name)
    return name if name in NEARNESS[1:] else None


def is_fast(name: str) -> bool:
    """Whether two cards talk by a wire of their own, past PCIe."""
    return kind_of(name) == "NV"


def distance(name: str) -> int:
    """0 for NVLink to 5 for SYS; beyond all where unknown."""
    kind = kind_of(name)
    return NEARNESS.index(kind) if kind else len(NEARNESS)
