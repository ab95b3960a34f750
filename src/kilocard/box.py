"""What this machine is: the part of a stamp that says where a number was measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

GIB = 2**30
NVIDIA_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
NVIDIA_S = 5.0
"""A driver that is well answers within a second; one that hangs never does."""
MOST_DIGITS = 15
ABSENT = (FileNotFoundError, NotADirectoryError, PermissionError)
"""What starting a tool raises where no folder of the path has it to run."""


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards that nvidia-smi lists, and why it lists none where it is there."""

    listed: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""
    hung: bool = False


def describe_box(cards: Cards | None = None) -> dict[str, Any]:
    """CPU, memory (GiB) and cards of this machine; `name` is a short slug, without host name or path.

    `cards` are those of `read_cards`, where they were read already.
    """
    cpu, cores, gpus = _cpu_model(), _usable_cores(), _gpus() if cards is None else cards.listed
    return {
        "name": _slug(cpu, cores, gpus),
        "cpu": cpu,
        "cores": cores,
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "gpus": gpus,
        "os": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    try:
        listing = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    named = re.search(r"^model name\s*:\s*(.+)$", listing, re.MULTILINE)
    return named.group(1).strip() if named else platform.machine()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_cards() -> Cards:
    """What nvidia-smi says; no cards and no failure where there is no such tool. It never raises."""
    try:
        answer = subprocess.run(
            NVIDIA_QUERY, capture_output=True, text=True, errors="replace", timeout=NVIDIA_S, check=False
        )
    except ABSENT:
        return Cards()
    except subprocess.TimeoutExpired:
        return Cards(failure=f"nvidia-smi gave no answer within {NVIDIA_S:g} s", hung=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Cards(failure=f"nvidia-smi did not start ({error})")
    if answer.returncode:
        return Cards(failure=f"nvidia-smi failed ({failure_of(answer)})")
    listed = _listed(answer.stdout)
    return Cards(listed, "" if listed else "nvidia-smi lists no card")


def failure_of(answer: subprocess.CompletedProcess[str]) -> str:
    """The exit of a tool, and the first line that it wrote, if any."""
    lines = f"{answer.stderr or ''}\n{answer.stdout or ''}".split("\n")
    said = next((line.strip() for line in lines if line.strip()), "")
    return f"exit {answer.returncode}: {said[:120]}" if said else f"exit {answer.returncode}"


def _gpus() -> list[dict[str, Any]]:
    return read_cards().listed


def _listed(printed: str) -> list[dict[str, Any]]:
    rows = [[cell.strip() for cell in line.split(",")] for line in printed.splitlines()]
    return [
        {"name": row[0], "memory_gib": _gib_of_mib(row[1]), "driver": row[2]} for row in rows if len(row) == 3
    ]


def _gib_of_mib(text: str) -> float | None:
    known = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    return round(int(text) / 1024, 1) if known else None


def _slug(cpu: str, cores: int, gpus: list[dict[str, Any]]) -> str:
    if gpus:
        return _dashed(f"{len(gpus)}x {gpus[0]['name']}")
    plain = re.sub(r"\((R|TM|C)\)|@.*|\d+-Core|\b(CPU|Processor)\b", " ", cpu, flags=re.IGNORECASE)
    return _dashed(f"cpu {cores}core {plain}")


def _dashed(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
