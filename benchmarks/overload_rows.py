"""What one load of the overload benchmark came to, as figures, and what has to hold of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos_answers import End, judge
from gateway_client import Exchange

from kilocard.specs.cluster import CLASSES

LEAST_KEPT = 0.95
SLACK_S = 1.0
"""Until a request whose turn has come is at an engine: all places may be taken by the longest answers."""
LEAST_SERVED, LEAST_SHARE = 0.025, 0.8
"""Of what the pool can do, what each class gets that is not the first, or this share of what it asks for:
half of what it may take by its age."""
GOOD = ("ok", "refused")
SAYS = re.compile(rb'"content": ?"(?!")')


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of goodput are MLPerf's, Llama-3.1-8B interactive: seconds to the first token, and a token
    after. A request must not wait so long that it breaks the first."""

    ttft_s: float = 0.5
    tpot_s: float = 0.03
    interactive_wait_s: float = 0.3
    async_wait_s: float = 60.0
    batch_wait_s: float = 120.0
    ageing_s: float = 5.0
    queue_limit: int = 64

    def longest_wait_s(self, priority: str) -> float:
        """By age no one waits longer: a better one that came later than this allows goes after it."""
        return CLASSES.index(priority) * self.ageing_s + self.interactive_wait_s + SLACK_S


@dataclass(frozen=True, slots=True)
class Served:
    """One request: its end, and the client's times."""

    request_id: str
    priority: str
    end: str
    begun: float
    ended: float
    ttft_s: float | None = None
    tpot_s: float | None = None


def judged(exchange: Exchange) -> Served:
    """By its bytes."""
    answer, ask = judge(exchange, was_hung_up=False), exchange.ask
    said = [moment for moment, data in exchange.reads if SAYS.search(data)]
    is_ok = answer.end is End.OK and len(said) > 1
    return Served(
        ask.request_id,
        ask.priority,
        str(answer.end),
        exchange.begun,
        answer.ended,
        said[0] - exchange.begun if is_ok else None,
        (said[-1] - said[0]) / (ask.tokens - 1) if is_ok else None,
    )


def row_of(
    served: Sequence[Served], waits_s: Mapping[str, float], counted_s: float, rules: Rules
) -> dict[str, Any]:
    """Figures by class; `waits_s` are the gateway's own, of requests that an engine got."""
    bad = Counter(one.end for one in served if one.end not in GOOD)
    return {
        "classes": {name: _class_of(name, served, waits_s, counted_s, rules) for name in CLASSES},
        "ends": dict(Counter(one.end for one in served)),
        "bad_ends": sum(bad.values()),
    }


def _class_of(
    name: str, served: Sequence[Served], waits_s: Mapping[str, float], counted_s: float, rules: Rules
) -> dict[str, Any]:
    mine = [one for one in served if one.priority == name]
    good = [
        one
        for one in mine
        if one.ttft_s is not None
        and one.tpot_s is not None
        and one.ttft_s <= rules.ttft_s
        and one.tpot_s <= rules.tpot_s
    ]
    waited_s = sorted(waits_s.get(one.request_id, 0.0) for one in mine if one.end == "ok")
    ttft_s = sorted(one.ttft_s for one in mine if one.ttft_s is not None)
    return {
        "asked_per_s": len(mine) / counted_s,
        "served_per_s": sum(one.end == "ok" for one in mine) / counted_s,
        "refused_per_s": sum(one.end == "refused" for one in mine) / counted_s,
        "goodput_per_s": len(good) / counted_s,
        "ttft_p50_s": _at(ttft_s, 0.5),
        "ttft_p99_s": _at(ttft_s, 0.99),
        "longest_wait_s": waited_s[-1] if waited_s else 0.0,
    }


def _at(ordered: Sequence[float], share: float) -> float | None:
    return ordered[int(share * len(ordered))] if ordered else None


def verdicts(rows: Sequence[dict[str, Any]], capacity_per_s: float, rules: Rules) -> dict[str, bool]:
    """Each thing that has to hold, with its figures, and whether it does."""
    first, told = rows[0]["classes"]["interactive"]["goodput_per_s"], dict[str, bool]()
    for row in rows[1:]:
        kept = row["classes"]["interactive"]["goodput_per_s"] / first if first else 0.0
        about = f"{row['times']:g} x: goodput of interactive is {kept:.1%} of that at 1 x"
        told[f"{about}, {LEAST_KEPT:.0%} asked"] = kept >= LEAST_KEPT
    for row in rows:
        at, line, bad = f"{row['times']:g} x", row["longest_line"], row["bad_ends"]
        for name in CLASSES[1:]:
            its, most_s = row["classes"][name], rules.longest_wait_s(name)
            least = min(LEAST_SERVED * capacity_per_s, LEAST_SHARE * its["asked_per_s"])
            waited_s, per_s = its["longest_wait_s"], its["served_per_s"]
            told[f"{at}: {name} waited {waited_s:.2f} s at the most, {most_s:.2f} allowed"] = (
                waited_s <= most_s
            )
            told[f"{at}: {per_s:.1f} {name} served a second, {least:.1f} asked"] = per_s >= least
        told[f"{at}: {line} in line at the most, {rules.queue_limit} allowed"] = line <= rules.queue_limit
        told[f"{at}: {bad} ends that are none, a 503 without Retry-After among them"] = bad == 0
    return told


def show(per_s: float, rows: Sequence[dict[str, Any]], told: Mapping[str, bool]) -> list[str]:
    """For a person."""
    lines = [f"the engines can do {per_s:.1f} requests a second"]
    for row in rows:
        lines.append(
            f"{row['times']:g} x: {row['offered_per_s']:.0f} a second, the client late by at most "
            f"{row['late_p99_ms']:.1f} ms in 99 of 100"
        )
        for name, its in row["classes"].items():
            lines.append(
                f"  {name:<12} asked {its['asked_per_s']:6.1f}  served {its['served_per_s']:6.1f}  refused "
                f"{its['refused_per_s']:6.1f}  in time {its['goodput_per_s']:6.1f}  TTFT p50 "
                f"{its['ttft_p50_s'] or 0:.2f} p99 {its['ttft_p99_s'] or 0:.2f} s  longest wait "
                f"{its['longest_wait_s']:.2f} s"
            )
    return [*lines, *(f"{'holds' if holds else 'MISSED'}: {name}" for name, holds in told.items())]
