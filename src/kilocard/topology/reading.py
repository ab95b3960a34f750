"""The matrix of this box, from the tool that knows it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

from kilocard.box import ABSENT, NVIDIA_S, failure_of
from kilocard.errors import KilocardError
from kilocard.topology.matrix import TopologyMatrix, parse_topology
from kilocard.topology.rocm import parse_rocm_topology

TOOLS: tuple[tuple[tuple[str, ...], Callable[[str], TopologyMatrix]], ...] = (
    (("nvidia-smi", "topo", "-m"), parse_topology),
    (("rocm-smi", "--showtopo"), parse_rocm_topology),
)


def read_matrix() -> TopologyMatrix | None:
    """How the cards here are wired; None without cards. An error where the tool fails or prints no matrix."""
    for command, parse in TOOLS:
        if printed := _printed(command):
            return parse(printed)
    return None


def _printed(command: Sequence[str]) -> str:
    asked = f"`{' '.join(command)}`"
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=NVIDIA_S, check=False
        )
    except ABSENT:
        return ""
    except subprocess.TimeoutExpired as error:
        raise KilocardError(f"{asked} gave no answer within {NVIDIA_S:g} s") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise KilocardError(f"{asked} did not start ({error})") from error
    if answer.returncode:
        raise KilocardError(f"{asked} failed ({failure_of(answer)})")
    return answer.stdout
