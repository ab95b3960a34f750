"""What each version served since a moment, by the gateways' access log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from kilocard.lifecycle import Served

OWN_FAULTS = frozenset({"error", "timeout", "lost"})
MOST_READ_BYTES = 256 * 2**20
MOST_TIMES = 5000
"""Of each version; the latest ones count."""


def log_end(path: Path) -> int:
    """Where the log ends now."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def served_since(path: Path, start: int, pool: str) -> dict[str, Served]:
    """By version, of a pool's requests that were logged from a place of the log on."""
    rows: dict[str, list[dict[str, object]]] = {}
    for row in _rows(path, start):
        if row.get("pool") == pool and row.get("version"):
            rows.setdefault(str(row["version"]), []).append(row)
    return {version: _served(found) for version, found in rows.items()}


def _served(rows: list[dict[str, object]]) -> Served:
    judged = [row for row in rows if row["outcome"] == "ok" or row["outcome"] in OWN_FAULTS]
    good = [row for row in judged if row["outcome"] == "ok"][-MOST_TIMES:]
    return Served(
        len(judged),
        sum(row["outcome"] in OWN_FAULTS for row in judged),
        tuple(time for row in good if (time := _ttft_s(row)) is not None),
        tuple(time for row in good if (time := _tpot_s(row)) is not None),
    )


def _ttft_s(row: dict[str, object]) -> float | None:
    """At the engine: without its wait at the gateway."""
    ttft, queue = row.get("ttft_s"), row.get("queue_s")
    if not isinstance(ttft, int | float):
        return None
    return float(ttft) - (float(queue) if isinstance(queue, int | float) else 0.0)


def _tpot_s(row: dict[str, object]) -> float | None:
    ttft, took, tokens = row.get("ttft_s"), row.get("took_s"), row.get("output_tokens")
    if not isinstance(ttft, int | float) or not isinstance(took, int | float):
        return None
    return (took - ttft) / (tokens - 1) if isinstance(tokens, int) and tokens > 1 else None


def _rows(path: Path, start: int) -> Iterator[dict[str, object]]:
    """Whole lines only; one that is no JSON is left out."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(start, size - MOST_READ_BYTES) if start <= size else 0)
            content = log.read(MOST_READ_BYTES)
    except OSError:
        return
    for line in content[: content.rfind(b"\n") + 1].splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "outcome" in row:
            yield row
