"""Boxes of others, as their owners published what `nvidia-smi topo -m` said there."""

from __future__ import annotations

import pandas as pd

from kilocard.errors import KilocardError, near_match
from kilocard.notebook.records import PUBLISHED
from kilocard.topology import Host, NumaNode, TopologyMatrix, parse_rocm_topology, parse_topology

FOLDER = PUBLISHED / "topologies"
ROCM = "rocm-"


def topology_text(name: str) -> str:
    """What the tool printed on that box; SOURCES.md beside it says who published it."""
    names = sorted(path.stem for path in FOLDER.glob("*.txt"))
    if name not in names:
        raise KilocardError(f"no published topology {name!r}: {near_match(name, names)}")
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def topology_of(name: str) -> TopologyMatrix:
    """The same, read."""
    parse = parse_rocm_topology if name.startswith(ROCM) else parse_topology
    return parse(topology_text(name))


def host_beside(matrix: TopologyMatrix) -> Host:
    """The machine around such cards, as far as the matrix tells: the cores that it names, by their nodes."""
    told = [(node, set(cores or ())) for node, cores in zip(matrix.numa_nodes, matrix.cores, strict=True)]
    by_node: dict[int, set[int]] = {}
    for node, cores in told:
        if node is not None:
            by_node.setdefault(node, set()).update(cores)
    usable = set().union(*(cores for _, cores in told))
    nodes = tuple(NumaNode(node, tuple(sorted(cores))) for node, cores in sorted(by_node.items()))
    return Host(tuple(sorted(usable)) or (0,), nodes)


def published_pinning() -> pd.DataFrame:
    """Runs with and without pinning that others measured; `gain_percent` is of speed."""
    return pd.read_csv(PUBLISHED / "pinning.csv")
