"""How near does the step time come when a model is cut into more cards? Batches fitted, batches judged.

    python benchmarks/tensor_parallel.py [--quick] [--json] [--ship] [--judge TABLE.csv]

Reads batches of Llama-2-70B at TP 2 and 4 (`KILOCARD_PUBLISHED_DATA`; see data/published/SOURCES.md), fits
each card's step time to some and judges it by the rest. `--judge` takes another table of the same columns,
other degrees and models too, and judges the fit of all those batches by it. `--quick` tries one half only.
`--ship` writes our errors, none of the published rows, to data/calibrations/.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kilocard import __version__
from kilocard.box import describe_box
from kilocard.errors import KilocardError
from kilocard.fleet.degrees import ERRORS, HALVES, SPLITS, Judged, judged_by_others, judged_by_splits, medians
from kilocard.fleet.published import VARIABLE, published_folder
from kilocard.fleet.published.batches import SOURCE

RESULT = Path(__file__).parent / "results" / "tensor_parallel.json"
BARS = {"prompt": 0.10, "token": 0.05}
"""Median errors to stay under on batches that were not fitted."""


def main() -> None:
    """Fit, judge, show, keep; ship where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--quick", "--json", "--ship"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--judge", type=Path, help="another table of batches, e.g. at TP 8")
    options = parser.parse_args()
    folder = published_folder()
    if folder is None:
        sys.exit(f"{VARIABLE} names no folder with published/ in it: see data/published/SOURCES.md")
    try:
        rows = judged_by_splits(folder, HALVES[:1] if options.quick else tuple(SPLITS))
        if options.judge:
            rows += judged_by_others(folder, options.judge)
    except (KilocardError, OSError) as error:
        sys.exit(str(error))
    result = summary(rows)
    if options.ship:
        ship(rows)
    if not options.quick and not options.judge:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1)) if options.json else show(result)


def summary(rows: Sequence[Judged]) -> dict[str, Any]:
    """Medians by split, card and degree, those of both halves together, and every batch's error."""
    halves = [row for row in rows if row.fitted_on in HALVES]
    return {
        "stamp": {
            "kind": "derived beside published",
            "source": SOURCE,
            "kilocard": __version__,
            "box": describe_box(),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        },
        "bars": BARS,
        "batches_not_fitted": {
            f"TP {degree}": medians(part)
            for degree in sorted({row.tensor_parallel for row in halves})
            if (part := [row for row in halves if row.tensor_parallel == degree])
        },
        "by_split": [
            dict(zip(("fitted_on", "model", "card", "tensor_parallel"), key, strict=True)) | medians(part)
            for key, part in _groups(rows)
        ],
        "batches": [asdict(row) for row in rows],
    }


def _groups(rows: Sequence[Judged]) -> Iterator[tuple[tuple[Any, ...], list[Judged]]]:
    def key(row: Judged) -> tuple[Any, ...]:
        return (row.fitted_on, row.model, row.card, row.tensor_parallel)

    for one in dict.fromkeys(map(key, rows)):
        yield one, [row for row in rows if key(row) == one]


def ship(rows: Sequence[Judged]) -> None:
    """Our errors, as the book's chapter reads them."""
    with ERRORS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Judged)])
        for row in rows:
            errors = (f"{row.prompt_error:.4f}", f"{row.token_error:.4f}")
            writer.writerow([*list(asdict(row).values())[:-2], *errors])


def show(result: dict[str, Any]) -> None:
    """The errors as a person reads them, in per cent."""
    for degree, found in result["batches_not_fitted"].items():
        print(f"{degree}, batches not fitted: {_told(found)}")
    for found in result["by_split"]:
        where = f"{found['model']} on {found['card']} at TP {found['tensor_parallel']}"
        print(f"fitted on {found['fitted_on']}: {where}: {_told(found)}")


def _told(found: dict[str, Any]) -> str:
    parts = (
        f"{what} {found[f'{what}_median']:.1%} (nine of ten under {found[f'{what}_p90']:.1%})"
        for what in ("prompt", "token")
    )
    return f"{', '.join(parts)}, {found['batches']} batches"


if __name__ == "__main__":
    main()
