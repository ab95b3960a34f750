"""The matrix of this box, from the tool that knows it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

from kilocard.topology.matrix import TopologyMatrix, parse_topology
from kilocard.topology.rocm import parse_rocm_topology

TOOLS: tuple[tuple[tuple[str, ...], Callable[[str], TopologyMatrix]], ...] = (
    (("nvidia-smi", "topo", "-m"), parse_topology),
    (("rocm-smi", "--showtopo"), parse_rocm_topology),
)


def read_matrix() -> TopologyMatrix | None:
    """How the cards here are wired; None without cards. An error where the tool prints no matrix."""
    for command, parse in TOOLS:
        if printed := _printed(command):
            return parse(printed)
    return None


def _printed(command: Sequence[str]) -> str:
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout
