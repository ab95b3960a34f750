"""How many tokens a second can emulated engines stream on one core, and how late do they leave?

    python benchmarks/emulator.py            # two minutes on two cores; wants an otherwise idle box
    python benchmarks/emulator.py --quick    # two shapes, under a minute; keeps nothing
    python benchmarks/emulator.py --json     # the result on stdout

Each shape is so many engines in one process, pinned to one core, with so many streams each, all decoding all
the time; a client on the other core only reads. Virtual time is sped up until the engines need four fifths of
the core, and slowed down again until they keep up. A step's lateness is from the moment that virtual time
gives its tokens to the moment that the last of them was written. A speed is sustained when 99 of 100 steps
are at most 10 ms late. The bar is on the core's time, so that a busy box does not decide it. The result is
kept with its stamp. Exit 1 when the bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter
from typing import Any

import uvloop
from prometheus_client.parser import text_string_to_metric_families

from kilocard import __version__
from kilocard.box import describe_box
from kilocard.emulator import Emulated, emulated
from kilocard.specs import case_from

RESULT = Path(__file__).parent / "results" / "emulator.json"
MODEL, CARD = "qwen3-8b", "h100-sxm"
PROMPT_TOKENS, OUTPUT_TOKENS = 64, 400
SHAPES = ((1, 1), (1, 64), (8, 32), (32, 8), (64, 4))
QUICK_SHAPES = ((1, 64), (8, 32))
WARM_S, MEASURED_S, QUICK_MEASURED_S = 1.0, 4.0, 2.0
TRIES, QUICK_TRIES = 4, 2
SUSTAINED_LATE_S = 0.01
AIMED_CORES = 0.8
LEAST_TOKENS_PER_CORE_S = 100_000
"""Of the best shape."""


@dataclass(frozen=True, slots=True)
class Row:
    """Engines x streams at one speed of virtual time."""

    engines: int
    streams: int
    """Of each engine."""
    speed: float
    tokens_per_s: float
    cores: float
    us_a_token: float
    """Of the core, microseconds."""
    late_p50_ms: float
    late_p99_ms: float
    """Upper edges of the histogram's buckets."""
    late_mean_ms: float
    sustained: bool


class Reader(asyncio.Protocol):
    """Asks for one stream after another and reads them, no more."""

    def __init__(self, request: bytes) -> None:
        self._request = request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"0\r\n\r\n"):
            self._transport.write(self._request)


def request_of(stream: int) -> bytes:
    """A streamed completion."""
    body = {"prompt": [1000 + stream] * PROMPT_TOKENS, "max_tokens": OUTPUT_TOKENS, "stream": True}
    content = json.dumps(body).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(content) + content


@dataclass(frozen=True, slots=True)
class Look:
    """What the engines have done so far."""

    at: float
    cpu_s: float
    tokens: float
    late_s: float
    late_counts: dict[float, float]


def look(engines: Emulated) -> Look:
    """Read the metrics of all engines and the CPU time of their process."""
    tokens, late_s, counts = 0.0, 0.0, dict[float, float]()
    at, cpu_s = perf_counter(), _cpu_s(engines.process.pid)
    for url in engines.urls:
        for family in text_string_to_metric_families(_metrics(url)):
            for sample in family.samples:
                if sample.name == "vllm:generation_tokens_total":
                    tokens += sample.value
                elif sample.name == "kilocard:emulated_lateness_seconds_sum":
                    late_s += sample.value
                elif sample.name == "kilocard:emulated_lateness_seconds_bucket":
                    edge = float(sample.labels["le"])
                    counts[edge] = counts.get(edge, 0) + sample.value
    return Look(at, cpu_s, tokens, late_s, counts)


def measure(engines: int, streams: int, speed: float, measured_s: float) -> Row:
    """One shape at one speed."""
    case = case_from(
        {
            "model": MODEL,
            "card": CARD,
            "replicas": engines,
            "engine": {"max_num_seqs": max(streams, 8)},
            "workload": {"requests": 1, "rate_per_s": 1, "prompt_tokens": 1, "output_tokens": 1},
        }
    )
    with emulated(case, speed=speed) as running:
        _pin(running.process.pid, 0)
        before, after = uvloop.run(_load(running, streams, measured_s))
    tokens, cpu_s, wall_s = (after.tokens - before.tokens, after.cpu_s - before.cpu_s, after.at - before.at)
    counts = {edge: after.late_counts[edge] - before.late_counts[edge] for edge in after.late_counts}
    steps = max(counts.values())
    late_p99_s = _edge(counts, 0.99)
    return Row(
        engines=engines,
        streams=streams,
        speed=round(speed, 2),
        tokens_per_s=tokens / wall_s,
        cores=cpu_s / wall_s,
        us_a_token=1e6 * cpu_s / max(tokens, 1),
        late_p50_ms=1e3 * _edge(counts, 0.5),
        late_p99_ms=1e3 * late_p99_s,
        late_mean_ms=1e3 * (after.late_s - before.late_s) / max(steps, 1),
        sustained=late_p99_s <= SUSTAINED_LATE_S,
    )


def climb(engines: int, streams: int, measured_s: float, tries: int) -> list[Row]:
    """As it is, then as fast as four fifths of a core should allow, then slower until it is sustained."""
    rows = [measure(engines, streams, 1.0, measured_s)]
    speed = AIMED_CORES / rows[0].cores
    while speed > 1 and len(rows) < tries:
        rows.append(measure(engines, streams, speed, measured_s))
        if rows[-1].sustained:
            break
        speed *= 0.75
    return rows


def show(row: Row) -> str:
    """One line of the table."""
    return (
        f"{row.engines:>3} engines x {row.streams:>3} streams  speed {row.speed:>7.2f}"
        f"  {row.tokens_per_s:>9,.0f} tokens/s  {row.cores:.2f} cores  {row.us_a_token:5.1f} us a token"
        f"  late p50 <= {row.late_p50_ms:g} ms, p99 <= {row.late_p99_ms:g} ms, mean {row.late_mean_ms:.3f} ms"
        f"{'' if row.sustained else '  not sustained'}"
    )


def stamp_of_this_run() -> dict[str, Any]:
    """Where and when; asked before anything is pinned to a core."""
    return {
        "kind": "measured",
        "box": describe_box(),
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "kilocard_version": __version__,
        "load": {
            "model": MODEL, "card": CARD, "prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS,
        },
    }  # fmt: skip


async def _load(engines: Emulated, streams: int, measured_s: float) -> tuple[Look, Look]:
    loop = asyncio.get_running_loop()
    for number in range(streams):
        for url in engines.urls:
            port = int(url.rpartition(":")[2])
            await loop.create_connection(lambda n=number: Reader(request_of(n)), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.sleep(WARM_S)
    before = await asyncio.to_thread(look, engines)
    await asyncio.sleep(measured_s)
    return before, await asyncio.to_thread(look, engines)


def _edge(counts: dict[float, float], share: float) -> float:
    """The first bucket edge under which so large a share lies."""
    whole = max(counts.values())
    return next(edge for edge in sorted(counts) if counts[edge] >= share * whole)


def _metrics(url: str) -> str:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=30)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pin(process: int, core: int) -> None:
    """The engines to one core, and this process to the others."""
    cores = sorted(os.sched_getaffinity(0) | os.sched_getaffinity(process))
    os.sched_setaffinity(process, {cores[core]})
    if len(cores) > 1:
        os.sched_setaffinity(0, set(cores) - {cores[core]})


def main() -> None:
    """Measure, show, keep, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three shapes, nothing kept")
    parser.add_argument("--json", action="store_true", help="the result on stdout, the table on stderr")
    options = parser.parse_args()
    measured_s, tries = (QUICK_MEASURED_S, QUICK_TRIES) if options.quick else (MEASURED_S, TRIES)
    stamp = stamp_of_this_run()
    rows: list[Row] = []
    for engines, streams in QUICK_SHAPES if options.quick else SHAPES:
        for row in climb(engines, streams, measured_s, tries):
            rows.append(row)
            print(show(row), flush=True, file=sys.stderr if options.json else sys.stdout)
    result = {"stamp": stamp, "rows": [asdict(row) for row in rows]}
    if not options.quick:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
        print(f"kept in {RESULT}", file=sys.stderr)
    if options.json:
        print(json.dumps(result, indent=1))
    best = max(1e6 / row.us_a_token for row in rows)
    missed = f"{best:,.0f} tokens a second of core time are under {LEAST_TOKENS_PER_CORE_S:,}"
    sys.exit(0 if best >= LEAST_TOKENS_PER_CORE_S else missed)


if __name__ == "__main__":
    main()
