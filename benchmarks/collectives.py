"""Does a start and a rate tell what an allreduce takes? Two processes of this box, 1 KiB to 64 MiB.

    python benchmarks/collectives.py            # under a minute; wants two cores and an otherwise idle box
    python benchmarks/collectives.py --quick    # one short measurement; judges, keeps nothing
    python benchmarks/collectives.py --json     # the result on stdout

Measured three times; the first is fitted by one rate and by two, and its line is held against the others,
which it has not seen. Then once more with each rank held on a core of its own. The table shows every size
with its error; the result is kept with its stamp. Exit 1 when the better fit's median error is over the bar.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kilocard.collectives import Measured, measure
from kilocard.parallel import Fitted, fit_two_rates, fit_wire

RESULT = Path(__file__).parent / "results" / "collectives.json"
MOST_MEDIAN_ERROR = 0.15
RUNS, BUDGET_S = 3, 4.0
QUICK_RUNS, QUICK_BUDGET_S = 1, 2.0


def unseen_error(line: Fitted, others: Sequence[Measured]) -> float | None:
    """The median of |line ÷ measured − 1| on runs that the line was not fitted to."""
    off = [np.abs(line.seconds(run.moved_bytes) / np.asarray(run.seconds) - 1) for run in others]
    return float(np.median(np.concatenate(off))) if off else None


def line_of(fitted: Fitted, others: Sequence[Measured]) -> dict[str, Any]:
    """What a fit says of itself."""
    return {
        "start_us": 1e6 * fitted.wire.start_s,
        "gb_per_s": fitted.wire.bytes_per_s / 1e9,
        "long_bytes": fitted.long_bytes,
        "long_share": fitted.long_share,
        "median_error": fitted.median_error,
        "worst_error": fitted.worst_error,
        "median_error_on_other_runs": unseen_error(fitted, others),
    }


def result_of(runs: Sequence[Measured], pinned: Measured | None) -> dict[str, Any]:
    """The first run's fits, and all runs with their stamp."""
    first, *others = runs
    fits = {
        "one rate": fit_wire(first.moved_bytes, first.seconds),
        "two rates": fit_two_rates(first.moved_bytes, first.seconds),
    }
    rows = [
        {
            **asdict(time),
            "bus_gb_per_s": rate / 1e9,
            "error_of_one_rate": fits["one rate"].errors[at],
            "error_of_two_rates": fits["two rates"].errors[at],
        }
        for at, (time, rate) in enumerate(zip(first.times, first.bytes_per_s.tolist(), strict=True))
    ]
    return {
        "stamp": asdict(first.stamp),
        "ranks": first.ranks,
        "copy_gb_per_s": first.copy_bytes_per_s / 1e9,
        "took_s": [run.took_s for run in runs],
        "fits": {name: line_of(fitted, others) for name, fitted in fits.items()},
        "rows": rows,
        "other_runs_s": [run.seconds for run in others],
        "pinned_s": None if pinned is None else pinned.seconds,
    }


def show(result: dict[str, Any]) -> list[str]:
    """The table and what the fits come to."""
    lines = [f"{'bytes':>10}{'us':>11}{'quartiles':>22}{'n':>5}{'GB/s':>7}{'one rate':>10}{'two rates':>11}"]
    for row in result["rows"]:
        quartiles = f"{1e6 * row['p25_s']:.1f} to {1e6 * row['p75_s']:.1f}"
        lines.append(
            f"{row['size_bytes']:>10}{1e6 * row['seconds']:>11.1f}{quartiles:>22}{row['n']:>5}"
            f"{row['bus_gb_per_s']:>7.2f}{row['error_of_one_rate']:>+10.0%}{row['error_of_two_rates']:>+11.0%}"
        )
    for name, fit in result["fits"].items():
        unseen = fit["median_error_on_other_runs"]
        told = "" if unseen is None else f", {unseen:.1%} on the other runs"
        knee = (
            "" if fit["long_bytes"] is None else f", × {fit['long_share']:.2f} over {fit['long_bytes']:.0f}"
        )
        lines.append(
            f"{name}: {fit['start_us']:.0f} us + bytes / {fit['gb_per_s']:.2f} GB/s{knee}; "
            f"median error {fit['median_error']:.1%}, largest {fit['worst_error']:.0%}{told}"
        )
    if result["pinned_s"]:
        slower = np.asarray(result["pinned_s"]) / [row["seconds"] for row in result["rows"]]
        at = int(np.argmax(slower))
        lines.append(
            f"a core a rank: {slower[at]:.1f} times as long at {result['rows'][at]['size_bytes']} bytes"
        )
    best = max(row["bus_gb_per_s"] for row in result["rows"])
    copied = result["copy_gb_per_s"]
    lines.append(
        f"two processes copy {copied:.2f} GB/s each way; the allreduce moves {best / copied:.0%} at best"
    )
    return lines


def main() -> None:
    """Measure, show, keep, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short measurement, nothing kept")
    parser.add_argument("--json", action="store_true", help="the result on stdout, the table on stderr")
    options = parser.parse_args()
    runs, budget_s = (QUICK_RUNS, QUICK_BUDGET_S) if options.quick else (RUNS, BUDGET_S)
    found = [measure(2, budget_s=budget_s) for _ in range(runs)]
    result = result_of(found, None if options.quick else measure(2, pin=True, budget_s=budget_s))
    print("\n".join(show(result)), file=sys.stderr if options.json else sys.stdout)
    if not options.quick:
        RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(result, indent=1))
    error = min(fit["median_error"] for fit in result["fits"].values())
    sys.exit(
        f"a median error of {error:.0%}, over {MOST_MEDIAN_ERROR:.0%}" if error > MOST_MEDIAN_ERROR else 0
    )


if __name__ == "__main__":
    main()
