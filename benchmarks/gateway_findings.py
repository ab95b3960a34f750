"""What the runs of all gateways come to: medians, who is best in what, and the bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from gateway_rows import Row
from gateway_settings import BALANCE, OVERHEAD, WITHOUT_SLOW

KILOCARD, NGINX, ROUTERS = "kilocard", "nginx", ("vllm-router", "smg")
STREAMS, SHORT = (setting.name for setting in OVERHEAD)
MOST_CHUNK_RATIO, MOST_ADDED_TTFT_MS = 1.5, 1.0
AIMED_REQUEST_RATIO = 2.0
LEAST_TIMES_BETTER, MOST_OVER_HEALTHY = 4.0, 1.15
SMALLER_IS_BETTER = {"ttft_p99_ms": True, "tpot_p99_ms": True, "goodput_share": False}

Line = dict[str, Any]
"""Of a setting and gateway: a row's numbers, each the median of its rounds."""


def medians(rows: Sequence[Row]) -> Iterator[Line]:
    """One line a setting and gateway: the medians of its rounds, and the sums of how requests ended."""
    for setting, name in dict.fromkeys((row.setting, row.name) for row in rows):
        mine = [row for row in rows if (row.setting, row.name) == (setting, name)]
        ran = [row for row in mine if not row.problem]
        line: Line = {"setting": setting, "gateway": name, "peer": mine[0].peer, "rounds": len(ran)}
        for number, value in asdict(mine[0]).items():
            if number == "ends":
                line[number] = _summed(row.ends for row in ran)
            elif number not in ("round", "requests") and (value is None or isinstance(value, float)):
                told = [getattr(row, number) for row in ran if getattr(row, number) is not None]
                line[number] = median(told) if told else None
        line["problem"] = next((row.problem for row in mine if row.problem), "")
        yield line


def _summed(ends: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in ends:
        for end, count in each.items():
            total[end] = total.get(end, 0) + count
    return total


def best(lines: Sequence[Line], setting: str, number: str, peers: Callable[[str], bool]) -> Line | None:
    """The line that is best in a number, among peers with more than one round where there are such."""
    told = [
        line
        for line in lines
        if line["setting"] == setting and peers(line["peer"]) and line.get(number) is not None
    ]
    most = max((line["rounds"] for line in told), default=0)
    told = [line for line in told if line["rounds"] == most]
    smaller = SMALLER_IS_BETTER.get(number, True)
    return (min if smaller else max)(told, key=lambda line: line[number]) if told else None


def findings(lines: Sequence[Line]) -> dict[str, Any]:
    """What the medians come to."""
    return {"overhead": _overhead_findings(lines), "balance": _balance_findings(lines)}


def _overhead_findings(lines: Sequence[Line]) -> dict[str, Any]:
    def of(setting: str, number: str) -> dict[str, float]:
        return {
            line["peer"]: line[number]
            for line in lines
            if line["setting"] == setting and line[number] is not None
        }

    ttft, chunks = of(STREAMS, "ttft_p50_ms"), of(STREAMS, "cpu_ms_per_1000_chunks")
    requests = of(SHORT, "cpu_s_per_1000_requests")
    direct = ttft.get("direct")
    return {
        "cpu_ms_per_1000_chunks": chunks,
        "chunks_ratio_to_nginx": _ratios(chunks),
        "cpu_s_per_1000_requests": requests,
        "requests_ratio_to_nginx": _ratios(requests),
        "added_ttft_p50_ms": {peer: value - direct for peer, value in ttft.items() if peer != "direct"}
        if direct is not None
        else {},
    }


def _ratios(values: dict[str, float]) -> dict[str, float]:
    return {peer: value / values[NGINX] for peer, value in values.items()} if NGINX in values else {}


def _balance_findings(lines: Sequence[Line]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for setting in BALANCE:
        for number in SMALLER_IS_BETTER:
            ours = best(lines, setting.name, number, lambda peer: peer == KILOCARD)
            theirs = best(lines, setting.name, number, lambda peer: peer not in (KILOCARD, "direct"))
            if ours or theirs:
                found.setdefault(setting.name, {})[number] = {
                    "kilocard": ours and ours[number],
                    "best_peer": theirs and theirs[number],
                    "whose": theirs and theirs["gateway"],
                }
    healthy = best(lines, WITHOUT_SLOW.name, "tpot_p99_ms", lambda peer: peer == KILOCARD)
    slowed = found.get(BALANCE[0].name, {}).get("tpot_p99_ms", {})
    if slowed.get("kilocard"):
        found["times_better_with_one_slow"] = slowed["best_peer"] and slowed["best_peer"] / slowed["kilocard"]
        found["over_the_healthy_fleet"] = healthy and slowed["kilocard"] / healthy["tpot_p99_ms"]
    return found


def misses(found: dict[str, Any]) -> list[str]:
    """The bars that Kilocard misses; what was not measured is no bar."""
    return [*_overhead_misses(found["overhead"]), *_balance_misses(found["balance"])]


def _overhead_misses(found: dict[str, Any]) -> Iterator[str]:
    if found["chunks_ratio_to_nginx"].get(KILOCARD, 0.0) > MOST_CHUNK_RATIO:
        yield f"CPU per chunk over {MOST_CHUNK_RATIO} x nginx"
    if found["added_ttft_p50_ms"].get(KILOCARD, 0.0) > MOST_ADDED_TTFT_MS:
        yield f"added TTFT over {MOST_ADDED_TTFT_MS:g} ms"
    requests = found["cpu_s_per_1000_requests"]
    for peer in ROUTERS:
        if KILOCARD in requests and peer in requests and requests[KILOCARD] >= requests[peer]:
            yield f"CPU per request not below {peer}"


def _balance_misses(found: dict[str, Any]) -> Iterator[str]:
    for setting in (setting.name for setting in BALANCE):
        for number, smaller in SMALLER_IS_BETTER.items():
            told = found.get(setting, {}).get(number, {})
            ours, theirs = told.get("kilocard"), told.get("best_peer")
            if ours is not None and theirs is not None and (ours >= theirs if smaller else ours < theirs):
                yield f"{setting}: {number} no better than {told['whose']}"
    if (found.get("times_better_with_one_slow") or LEAST_TIMES_BETTER) < LEAST_TIMES_BETTER:
        yield f"one slow: less than {LEAST_TIMES_BETTER:g} x better than the best peer"
    if (found.get("over_the_healthy_fleet") or 0.0) > MOST_OVER_HEALTHY:
        yield f"one slow: over {MOST_OVER_HEALTHY:g} x the same fleet without it"


def summary(found: dict[str, Any]) -> list[str]:
    """The findings in a few lines."""
    lines = []
    for name, values in found["overhead"].items():
        if values:
            lines.append(f"{name}: " + ", ".join(f"{peer} {value:.3g}" for peer, value in values.items()))
    for setting, told in found["balance"].items():
        if isinstance(told, dict):
            for number, values in told.items():
                ours, theirs = values["kilocard"], values["best_peer"]
                lines.append(
                    f"{setting}, {number}: kilocard {_said(ours)}, {values['whose']} {_said(theirs)}"
                )
        elif told is not None:
            lines.append(f"{setting}: {told:.2f}")
    return lines


def _said(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}"
