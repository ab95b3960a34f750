"""The benchmark of overload, on paper: what it counts, and that each thing that does not hold is told."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import overload
from gateway_client import Ask, Exchange
from gateway_frames import STREAM_HEAD, last_events, token_event
from overload_rows import Rules, Served, judged, row_of, show, verdicts

RULES = Rules()
TOO_LATE_S = RULES.ttft_s + 0.1
USAGE = {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
REFUSED = b"HTTP/1.1 503 no\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n"
ASK = Ask("a", [], 3, priority="batch")


def served(name: str, priority: str = "interactive", ttft_s: float = 0.1, end: str = "ok") -> Served:
    is_ok = end == "ok"
    return Served(name, priority, end, 0.0, 1.0, ttft_s if is_ok else None, 0.01 if is_ok else None)


def row(times: float, *more: Served, interactive: int = 10, line: int = 5) -> dict[str, Any]:
    others = [served(f"{name}-{k}", name) for name in ("async", "batch") for k in range(5)]
    all_of_them = [*(served(str(k)) for k in range(interactive)), *others, *more]
    load = {"times": times, "offered_per_s": 1.0, "longest_line": line, "late_p99_ms": 0.1}
    return {**load, **row_of(all_of_them, {"batch-0": 4.0}, 1.0, RULES)}


def missed(*rows: dict[str, Any]) -> list[str]:
    told = verdicts(rows, 20.0, RULES)
    assert len(show(20.0, rows, told)) > len(told)
    return [name for name, holds in told.items() if not holds]


def test_a_stream_is_timed_by_its_tokens_alone() -> None:
    pieces = [STREAM_HEAD, *(token_event("a", True, number) for number in range(3))]
    reads = [(float(at), piece) for at, piece in enumerate([*pieces, last_events("a", True, USAGE)], start=1)]
    whole = judged(Exchange(ASK, 1.0, reads, "complete"))
    assert (whole.end, whole.priority, whole.ttft_s, whole.tpot_s) == ("ok", "batch", 1.0, 1.0)


def test_a_refusal_says_when_to_come_again() -> None:
    assert judged(Exchange(ASK, 1.0, [(2.0, REFUSED)], "complete")).end == "refused"
    silent = judged(Exchange(ASK, 1.0, [(2.0, REFUSED.replace(b"retry-after", b"x-after"))], "complete"))
    assert silent.end == "reported error"
    assert missed(row(1), row(3, silent)) == [
        "3 x: 1 ends that are none, a 503 without Retry-After among them"
    ]


def test_a_priority_travels_in_a_header() -> None:
    assert b"\r\nX-Priority: batch\r\n" in ASK.payload("h")
    assert b"riority" not in Ask("a", [], 3).payload("h")


def test_goodput_counts_what_came_in_time() -> None:
    its = row(1, served("late", ttft_s=TOO_LATE_S), served("no", end="refused"))["classes"]["interactive"]
    assert (its["asked_per_s"], its["served_per_s"], its["refused_per_s"]) == (12, 11, 1)
    assert (its["goodput_per_s"], its["ttft_p99_s"]) == (10, TOO_LATE_S)


def test_what_does_not_hold_is_told() -> None:
    assert missed(row(1), row(2), row(3)) == []
    assert missed(row(1), row(3, interactive=9)) == [
        "3 x: goodput of interactive is 90.0% of that at 1 x, 95% asked"
    ]
    assert missed(row(1), row(3, line=RULES.queue_limit + 1)) == ["3 x: 65 in line at the most, 64 allowed"]
    starved = row(3)
    starved["classes"]["batch"] |= {"served_per_s": 0.1, "longest_wait_s": 60.0}
    assert missed(row(1), starved) == [
        "3 x: batch waited 60.00 s at the most, 11.30 allowed",
        "3 x: 0.1 batch served a second, 0.5 asked",
    ]


def test_a_mix_has_a_part_for_each_class() -> None:
    assert overload._mix("18,1,1") == (18.0, 1.0, 1.0)
    for text in ("1,2", "0,0,0", "-1,1,1", "1,2,3,4"):
        with pytest.raises(ArgumentTypeError):
            overload._mix(text)
