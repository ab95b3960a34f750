"""How near does the engine model come to real engines? Row by row, on models left out, and from one run to
others.

    python benchmarks/accuracy.py [--quick] [--json] [--ship]

Reads what others published (`KILOCARD_PUBLISHED_DATA`; see data/published/SOURCES.md), fits one set of
coefficients a
card, and shows every error, also where it is bad. `--quick` leaves out the refits without a model. `--ship`
writes data/calibrations/: the coefficients, and our errors, none of the published rows.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kilocard import __version__
from kilocard.box import describe_box
from kilocard.engine_model.calibration import SHIPPED, Calibration, write_calibration
from kilocard.fleet.calibrating import Row, median_error
from kilocard.fleet.published import VARIABLE, published_folder
from kilocard.fleet.published.batches import SOURCE as BATCH_SOURCE
from kilocard.fleet.published.rates import SOURCE as RATE_SOURCE
from kilocard.fleet.published.requests import RUNS
from kilocard.fleet.published.requests import SOURCE as REQUEST_SOURCE
from kilocard.fleet.shipped import (
    SECOND_HALF,
    BatchFit,
    RateFit,
    RequestFit,
    carried_over,
    fit_batches,
    fit_rates,
    fit_requests,
)

RESULT = Path(__file__).parent / "results" / "accuracy.json"
PEERS = {
    "BLIS trained-physics": {"e2e_s": 0.068, "ttft_s": 0.184},
    "LLMServingSim 1.1": {"e2e_s": 0.188, "ttft_s": 0.725},
    "aiconfigurator 0.9": {"e2e_s": 0.215, "ttft_s": 6.62},
    "plain roofline": {"e2e_s": 0.334, "ttft_s": 6.5},
}
"""Median errors of others on 38 runs of the same series of measurements (inference-sim), not on these 13."""


def main() -> None:
    """Fit, show, keep; ship where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--quick", "--json", "--ship"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args()
    folder = published_folder()
    if folder is None:
        sys.exit(f"{VARIABLE} names no folder with published/ in it: see data/published/SOURCES.md")
    rates = fit_rates(folder, quick=options.quick)
    batches = fit_batches(folder)
    requests = {card: fit_requests(folder, card, rates.coefficients) for card in RUNS}
    result = summary(rates, batches, requests)
    if options.ship:
        ship(result, rates, batches, requests)
    if not options.quick:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1)) if options.json else show(result)


def summary(rates: RateFit, batches: dict[str, BatchFit], requests: dict[str, RequestFit]) -> dict[str, Any]:
    """Every row's error, and the medians."""
    return {
        "stamp": {
            "kind": "simulated beside published",
            "kilocard": __version__,
            "box": describe_box(),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        },
        "h100-sxm": {
            "source": RATE_SOURCE,
            "coefficients": rates.coefficients.as_dict(),
            "seen": medians(rates.seen) | {"rows": [asdict(row) for row in rates.seen]},
            "model_left_out": medians(rates.left_out) | {"rows": [asdict(row) for row in rates.left_out]},
            "from_one_run": medians(rates.from_one_run)
            | {"rows": [asdict(row) for row in rates.from_one_run]},
        },
        "batches": {card: _batch_summary(fit) for card, fit in batches.items()},
        "requests": {card: _request_summary(fit) for card, fit in requests.items()},
        "peers_on_other_runs": PEERS,
    }


def medians(rows: Sequence[Row]) -> dict[str, Any]:
    """Median absolute errors, and the value that nine of ten rows stay under."""
    found: dict[str, Any] = {}
    for metric, statistic in (("e2e_s", "mean"), ("e2e_s", "p99"), ("ttft_s", "mean"), ("ttft_s", "p90")):
        name = f"{metric}.{statistic}"
        found[name] = {
            "median": median_error(rows, metric, statistic) if rows else None,
            "p90": median_error(rows, metric, statistic, 0.9) if rows else None,
        }
    return found


def _batch_summary(fit: BatchFit) -> dict[str, Any]:
    half = len(fit.batches)
    rows = [
        {
            "tensor_parallel": batch.tensor_parallel,
            "prompt_tokens": batch.prompt_tokens,
            "sequences": batch.sequences,
            "prompt_error": float(fit.errors[number]),
            "token_error": float(fit.errors[half + number]),
        }
        for number, batch in enumerate(fit.batches)
    ]
    prompt, token = np.abs(fit.errors[:half]), np.abs(fit.errors[half:])
    medians = {"prompt_s": float(np.median(prompt)), "token_s": float(np.median(token))}
    return {
        "source": BATCH_SOURCE,
        "median": medians,
        "coefficients": fit.coefficients.as_dict(),
        "rows": rows,
    }


def _request_summary(fit: RequestFit) -> dict[str, Any]:
    kept = {"ttft_s": fit.ttft_errors[SECOND_HALF], "e2e_s": fit.e2e_errors[SECOND_HALF]}
    return {
        "source": REQUEST_SOURCE,
        "coefficients": fit.coefficients.as_dict(),
        "median_on_second_half": {name: float(np.median(np.abs(values))) for name, values in kept.items()},
        "p90_on_second_half": {
            name: float(np.quantile(np.abs(values), 0.9)) for name, values in kept.items()
        },
    }


def ship(
    result: dict[str, Any], rates: RateFit, batches: dict[str, BatchFit], requests: dict[str, RequestFit]
) -> None:
    """Write a calibration a card, with the error that it has shown on what it did not see."""
    SHIPPED.mkdir(exist_ok=True)
    left_out = result["h100-sxm"]["model_left_out"]
    shown = {
        "e2e_s": left_out["e2e_s.mean"]["median"],
        "ttft_s": left_out["ttft_s.mean"]["median"],
        "e2e_p99_s": left_out["e2e_s.p99"]["median"],
    }
    _write("h100-sxm", rates.coefficients, RATE_SOURCE, shown)
    a100 = result["batches"]["a100-sxm-80gb"]["median"]
    source = f"the H100's, moved as on {BATCH_SOURCE}; its bandwidth as reported, unverified"
    shown = {"ttft_s": a100["prompt_s"], "tpot_s": a100["token_s"]}
    _write("a100-sxm-80gb", carried_over(rates.coefficients, batches), source, shown)
    for card, fit in requests.items():
        _write(
            card,
            fit.coefficients,
            f"{REQUEST_SOURCE}, the first half",
            result["requests"][card]["median_on_second_half"],
        )
    with (SHIPPED / "h100-sxm.errors.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["fit", "run", "model", "metric", "statistic", "error"])
        for name, rows in (
            ("seen", rates.seen),
            ("model left out", rates.left_out),
            ("from one run", rates.from_one_run),
        ):
            for row in rows:
                writer.writerow(
                    [name, row.observation, row.model, row.metric, row.statistic, f"{row.error:.4f}"]
                )


def _write(card: str, coefficients: Any, source: str, shown: dict[str, float]) -> None:
    rounded = coefficients.with_(
        **{name: float(f"{value:.4g}") for name, value in coefficients.as_dict().items()}
    )
    errors = {name: round(float(value), 3) for name, value in shown.items()}
    write_calibration(SHIPPED / f"{card}.yaml", card, Calibration(card, "card", rounded, source, errors))


def show(result: dict[str, Any]) -> None:
    """The errors as a person reads them, in per cent."""
    for name in ("seen", "model_left_out", "from_one_run"):
        part = result["h100-sxm"][name]
        print(
            f"H100, {name.replace('_', ' ')}: "
            + ", ".join(f"{key} {_percent(part[key])}" for key in part if key != "rows")
        )
        for row in part["rows"]:
            if row["statistic"] == "mean":
                print(f"  {row['observation'][:48]:48}  {row['metric']:7} {100 * row['error']:+6.1f} %")
    for card, part in result["batches"].items():
        print(
            f"{card}, batches: "
            + ", ".join(f"{key} {100 * value:.1f} %" for key, value in part["median"].items())
        )
    for card, part in result["requests"].items():
        kept = part["median_on_second_half"].items()
        print(
            f"{card}, second half of the requests: "
            + ", ".join(f"{key} {100 * value:.1f} %" for key, value in kept)
        )
    for peer, values in result["peers_on_other_runs"].items():
        print(
            f"peer, on 38 other runs: {peer}: "
            + ", ".join(f"{key} {100 * value:.0f} %" for key, value in values.items())
        )


def _percent(pair: dict[str, float | None]) -> str:
    shown = [value for value in pair.values() if value is not None]
    return f"{100 * shown[0]:.1f} % (nine of ten under {100 * shown[1]:.1f})" if shown else "–"


if __name__ == "__main__":
    main()
