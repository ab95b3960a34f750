"""One engine's start and one request's way, station by station: by the engine's log, its own clock, ours."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kilocard.errors import KilocardError
from kilocard.launch import web

TIME = re.compile(r"(?:INFO|WARNING) \d\d-\d\d (\d\d):(\d\d):(\d\d) ")
MARKS = (
    ("Python and its libraries, of the server", "non-default args"),
    ("the same once more, of the engine's core", "Initializing a V1 LLM engine"),
    ("a place among the ranks", "Starting to load model"),
    ("weights from the disk", "Loading weights took"),
    ("KV cache, a first step", "init engine"),
    ("routes, tokenizer, the port", "Application startup complete"),
)
"""What each part of a start ends with in the log, in the order of a start."""
EXACT = {
    "weights from the disk": re.compile(r"Loading weights took ([\d.]+) s"),
    "KV cache, a first step": re.compile(r"init engine .* took ([\d.]+) s"),
}
"""Parts of which the log tells more than whole seconds."""
DAY_S = 86_400
ENGINE_SUMS = {
    "in the engine's line": "vllm:request_queue_time_seconds_sum",
    "prefill": "vllm:request_prefill_time_seconds_sum",
    "decode": "vllm:request_decode_time_seconds_sum",
}


@dataclass(frozen=True, slots=True)
class Station:
    """A part of a way, in seconds from its begin."""

    name: str
    begin_s: float
    seconds: float


def start_stations(log: str, whole_s: float, completion_s: float) -> list[Station]:
    """The parts of a start that took `whole_s` from the program's begin to the end of its first completion,
    which took `completion_s` of it. vLLM's log tells whole seconds but for the parts in `EXACT`, and begins
    when its first libraries are there: the first part is what is left."""
    seen = [(name, at) for name, mark in MARKS if (at := _second_of(log, mark)) is not None]
    if not seen:
        raise KilocardError("this log tells of no start: name that of an engine which vLLM 0.32 wrote")
    first_mark, last_mark = seen[0][1], seen[-1][1]
    first_s = max(0.0, whole_s - completion_s - (last_mark - first_mark) % DAY_S)
    told, at_s = [], 0.0
    for name, mark_s in seen:
        exact_s = _exact_s(log, name)
        end_s = first_s + (mark_s - first_mark) % DAY_S if exact_s is None else at_s + exact_s
        told.append(Station(name, at_s, max(0.0, end_s - at_s)))
        at_s = max(at_s, end_s)
    return [*told, Station("a first completion", at_s, max(0.0, whole_s - at_s))]


def _exact_s(log: str, name: str) -> float | None:
    """Of its last line that tells it."""
    found = EXACT[name].findall(log) if name in EXACT else []
    return float(found[-1]) if found else None


def request_stations(gateway: str, engine: str, body: Mapping[str, Any]) -> list[Station]:
    """One streamed request through a gateway to an engine that has nothing else to do: the engine's own sums
    before and after, our clock around."""
    before = _sums(engine)
    whole_s, first_s = _timed(gateway, body)
    after = _until_counted(engine, before)
    inside = {name: after[name] - before[name] for name in ENGINE_SUMS}
    around_s = max(0.0, first_s - inside["in the engine's line"] - inside["prefill"])
    rest_s = max(0.0, whole_s - first_s - inside["decode"])
    parts = [
        ("way in: client, gateway, the engine's server", around_s),
        ("in the engine's line", inside["in the engine's line"]),
        ("prefill, to the first token", inside["prefill"]),
        ("decode, to the last", inside["decode"]),
        ("way back", rest_s),
    ]
    told, at_s = [], 0.0
    for name, seconds in parts:
        told.append(Station(name, at_s, seconds))
        at_s += seconds
    return told


def share(stations: Sequence[Station], name: str) -> float:
    """Of the whole way, by the begin of a station's name."""
    whole = sum(it.seconds for it in stations)
    return sum(it.seconds for it in stations if it.name.startswith(name)) / whole


def _second_of(log: str, mark: str) -> int | None:
    """The time of day of the last line with this mark, or of the line before it that has one."""
    at = log.rfind(mark)
    found = None
    if at >= 0:
        *_, found = [None, *TIME.finditer(log[: log.find("\n", at)])]
    return 3600 * int(found[1]) + 60 * int(found[2]) + int(found[3]) if found else None


def _timed(url: str, body: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds to the last byte, and to the first one of an answer."""
    host = url.removeprefix("http://")
    connection = HTTPConnection(host, timeout=120)
    content = json.dumps({**body, "stream": True})
    try:
        connection.connect()
        sent_s = time.perf_counter()
        connection.request("POST", "/v1/completions", content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read1(1)
        first_s = time.perf_counter() - sent_s
        answer.read()
        return time.perf_counter() - sent_s, first_s
    finally:
        connection.close()


def _sums(url: str) -> dict[str, float]:
    page = web.get_text(f"{url}/metrics", 10.0)
    told = dict.fromkeys(ENGINE_SUMS, 0.0)
    names = {series: name for name, series in ENGINE_SUMS.items()}
    for family in text_string_to_metric_families(page):
        for row in family.samples:
            if row.name in names:
                told[names[row.name]] += row.value
    return told


def _until_counted(url: str, before: Mapping[str, float], within_s: float = 5.0) -> dict[str, float]:
    """The engine counts a request a moment after it has ended."""
    until = time.monotonic() + within_s
    while (after := _sums(url))["decode"] <= before["decode"] and time.monotonic() < until:
        time.sleep(0.05)
    return after


def tpot_s(way: Sequence[Station], tokens: int) -> float:
    """Seconds a token of the part that decodes."""
    return next(it.seconds for it in way if it.name.startswith("decode")) / (tokens - 1)


def what_else(way: Sequence[Station]) -> str:
    """In a sentence: where the time went that is not the model's."""
    whole = sum(it.seconds for it in way)
    rest = [it for it in way if not it.name.startswith(("prefill", "decode"))]
    largest = max(rest, key=lambda it: it.seconds)
    return (
        f"What is not the model is {100 * sum(it.seconds for it in rest) / whole:.1f} % of it, most of that "
        f"{largest.name} ({1000 * largest.seconds:.0f} ms): HTTP is parsed twice and the prompt is made into "
        "tokens, by Python, on the cores that the model computes on."
    )
