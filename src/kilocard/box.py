"""What this machine is: the part of a stamp that says where a number was measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import psutil

GIB = 2**30
NVIDIA_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")


def describe_box() -> dict[str, Any]:
    """CPU, memory (GiB) and cards of this machine; `name` is a short slug, without host name or path."""
    cpu, cores, gpus = _cpu_model(), _usable_cores(), _gpus()
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


def _gpus() -> list[dict[str, Any]]:
    try:
        answer = subprocess.run(NVIDIA_QUERY, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in answer.stdout.splitlines()]
    return [
        {"name": row[0], "memory_gib": _gib_of_mib(row[1]), "driver": row[2]} for row in rows if len(row) == 3
    ]


def _gib_of_mib(text: str) -> float | None:
    return round(int(text) / 1024, 1) if text.isdigit() else None


def _slug(cpu: str, cores: int, gpus: list[dict[str, Any]]) -> str:
    if gpus:
        return _dashed(f"{len(gpus)}x {gpus[0]['name']}")
    plain = re.sub(r"\((R|TM|C)\)|@.*|\d+-Core|\b(CPU|Processor)\b", " ", cpu, flags=re.IGNORECASE)
    return _dashed(f"cpu {cores}core {plain}")


def _dashed(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
