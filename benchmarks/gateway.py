"""Which gateway keeps its promise before unequal engines, and what does it cost? Kilocard's beside its peers.

    python benchmarks/gateway.py                          # an hour and a half; wants two idle cores
    python benchmarks/gateway.py --quick                  # under a minute; judges and keeps nothing
    python benchmarks/gateway.py --json                   # the result on stdout, the table on stderr
    python benchmarks/gateway.py --part balance --setting chat --peers kilocard,nginx,smg --rounds 1

Engines that are not Kilocard's, eight in one process; the client is of this script; each run has fresh
engines and a fresh gateway, one thread or process where the peer allows it. In a round every gateway gets the
same requests at the same times, one gateway after another; the next round has another seed. **Overhead**: 100
streams all the time, then short answers as fast as they come. **Balance**: one engine 5 x slower; bursts with
none slow; chats that share system prompts. Round one tries every policy of every peer; later rounds those
that were a peer's best in one of the three numbers that count. Medians over rounds. A peer that cannot be had
is named with the reason. The result is kept with its stamp. Exit 1 when Kilocard misses a bar.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway_findings import KILOCARD, SMALLER_IS_BETTER, Line, findings, medians, misses, summary
from gateway_peers.catalogue import GATEWAYS, PEERS
from gateway_peers.place import Gateway
from gateway_rows import Row, measure
from gateway_settings import (
    BALANCE,
    LONG_SHARE,
    LONG_TOKENS,
    OVERHEAD,
    QUICK_BALANCE,
    SHORT_TOKENS,
    WITHOUT_SLOW,
    Setting,
)
from result import now, parser_of, stamp, tell

RESULT = Path(__file__).parent / "results" / "gateway.json"
ROUNDS, BALANCE_S, OVERHEAD_S = 3, 16.0, 8.0
QUICK_S, QUICK_PEERS = 2.0, ("direct", "kilocard", "nginx")

BESIDE_THE_HEALTHY = ("kilocard", "nginx")

Show = Callable[[Row], None]


def first_policies(gateways: Iterable[Gateway]) -> list[Gateway]:
    """Of each peer the first of the list: what it costs hardly depends on the policy."""
    return list({gateway.peer: gateway for gateway in reversed(list(gateways))}.values())[::-1]


def overhead(gateways: Sequence[Gateway], rounds: int, measured_s: float, show: Show) -> list[Row]:
    """All gateways, round by round."""
    rows = []
    for round_ in range(rounds):
        for setting in OVERHEAD:
            for gateway in first_policies(gateways):
                rows.append(measure(gateway, setting, round_, measured_s))
                show(rows[-1])
    return rows


def balance(
    gateways: Sequence[Gateway], settings: Sequence[Setting], rounds: int, measured_s: float, show: Show
) -> list[Row]:
    """Every policy once, then the best of each peer; and the same fleet without the slow one."""
    rows: list[Row] = []
    for setting in settings:
        fit = [one for one in gateways if setting.name in one.settings or not one.settings]
        fit = [one for one in fit if one.command is not None]
        for round_ in range(rounds):
            seen = [row for row in rows if row.setting == setting.name]
            for gateway in best_policies(fit, seen) if round_ else fit:
                rows.append(measure(gateway, setting, round_, measured_s))
                show(rows[-1])
            if setting.slow_one is not None and setting in BALANCE:
                for gateway in _beside_the_healthy(fit):
                    rows.append(measure(gateway, WITHOUT_SLOW, round_, measured_s))
                    show(rows[-1])
    return rows


def _beside_the_healthy(gateways: Sequence[Gateway]) -> list[Gateway]:
    return [one for one in gateways if one.peer == KILOCARD] + [
        one for one in first_policies(gateways) if one.peer in BESIDE_THE_HEALTHY and one.peer != KILOCARD
    ]


def best_policies(gateways: Sequence[Gateway], rows: Sequence[Row]) -> list[Gateway]:
    """Of each peer the policies that were its best in one of the numbers that count; all of Kilocard's."""
    names = set()
    for peer in {row.peer for row in rows}:
        for number, smaller in SMALLER_IS_BETTER.items():
            told = [row for row in rows if row.peer == peer and getattr(row, number) is not None]
            if told:
                sign = 1 if smaller else -1
                names.add(min(told, key=lambda row: sign * getattr(row, number)).name)
    return [one for one in gateways if one.name in names or one.peer == KILOCARD]


def show(line: Line | Row) -> str:
    """One line of the table: of a run, or of the medians."""
    told = line if isinstance(line, dict) else {**asdict(line), "gateway": line.name}
    about = f"{told['setting']:<21}{told['gateway']:<39}"
    if told["problem"]:
        return f"{about}{told['problem']}"
    cells = [
        ("TTFT", "ttft_p50_ms", "{:.2f}"), ("p99", "ttft_p99_ms", "{:.1f} ms"),
        ("a token", "tpot_p50_ms", "{:.2f}"), ("p99", "tpot_p99_ms", "{:.2f} ms"),
        ("short p99", "short_p99_ms", "{:.0f} ms"), ("kept", "goodput_share", "{:.1%}"),
        ("slow", "slow_share", "{:.1%}"), ("cached", "cached_share", "{:.0%}"),
        ("CPU", "cpu_ms_per_1000_chunks", "{:.1f} ms/1,000 chunks"),
        ("", "cpu_s_per_1000_requests", "{:.3f} s/1,000 requests"),
        ("", "memory_mb", "{:.0f} MB"),
    ]  # fmt: skip
    said = [
        f"{name} {form.format(told[number])}".strip()
        for name, number, form in cells
        if told.get(number) is not None
    ]
    wrong = {end: count for end, count in told["ends"].items() if end != "ok"}
    return about + "  ".join([*said, *([str(wrong)] if wrong else [])])


def result_of(rows: Sequence[Row], started_at: str, options: argparse.Namespace) -> dict[str, Any]:
    """Everything, with its stamp."""
    lines = list(medians(rows))
    found = findings(lines)
    return {
        "stamp": stamp(
            "measured",
            started_at,
            versions={row.peer: row.version for row in rows if row.version},
            not_had={row.name: row.problem for row in rows if row.problem},
            rounds=options.rounds,
            seconds={"balance": options.balance_s, "overhead": options.overhead_s},
            lengths={"short": SHORT_TOKENS, "long": LONG_TOKENS, "share_of_long": LONG_SHARE},
            settings=[_told(setting) for setting in (*OVERHEAD, *BALANCE, WITHOUT_SLOW)],
        ),
        "findings": found,
        "missed": misses(found),
        "medians": lines,
        "rows": [asdict(row) for row in rows],
    }


def _told(setting: Setting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "engines": setting.engines,
        "script": asdict(setting.script),
        "slo": asdict(setting.slo),
        "warm_s": setting.warm_s,
    }


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = parser_of(__doc__, "three gateways, one round; keeps nothing")
    parser.add_argument("--peers", type=_names(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--part", choices=("overhead", "balance"), help="one of the two alone")
    parser.add_argument("--setting", choices=[setting.name for setting in BALANCE], help="of the balance")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--balance-s", type=float, default=BALANCE_S, help="counted seconds of a run")
    parser.add_argument("--overhead-s", type=float, default=OVERHEAD_S)
    parser.add_argument("--out", type=Path, default=RESULT, help="where the result is kept")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.balance_s, options.overhead_s = 1, QUICK_S, QUICK_S
        options.peers = options.peers or list(QUICK_PEERS)
    return options


def _names(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"no peer {', '.join(unknown)}: use {', '.join(known)}")
        return names

    return parse


def chosen(options: argparse.Namespace) -> tuple[list[Gateway], list[Setting]]:
    """Gateways and settings that the options ask for; a quick run takes one policy a peer."""
    gateways = [one for one in GATEWAYS if options.peers is None or one.peer in options.peers]
    known = QUICK_BALANCE if options.quick else BALANCE
    settings = [one for one in known if options.setting in (None, one.name)]
    return (first_policies(gateways) if options.quick else gateways), settings


def main() -> None:
    """Measure, show, keep, judge."""
    options = options_of()
    out = sys.stderr if options.json else sys.stdout
    started_at = now()
    gateways, settings = chosen(options)
    rows: list[Row] = []

    def show_at_once(row: Row) -> None:
        print(show(row), file=out, flush=True)

    if options.part != "balance":
        rows += overhead(gateways, options.rounds, options.overhead_s, show_at_once)
    if options.part != "overhead":
        rows += balance(gateways, settings, options.rounds, options.balance_s, show_at_once)
    result = result_of(rows, started_at, options)
    lines = ["\nmedians:", *map(show, result["medians"]), "", *summary(result["findings"])]
    tell(result, lines, None if options.quick else options.out, options.json)
    if result["missed"] and not options.quick:
        sys.exit(f"Kilocard misses: {'; '.join(result['missed'])}")


if __name__ == "__main__":
    main()
