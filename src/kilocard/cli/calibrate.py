"""`kilocard calibrate`: fit the engine model to one measured run, for every other run of the same engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kilocard.cli.facts import FactsOption, JsonOption, use_facts
from kilocard.cli.output import print_json, print_pairs
from kilocard.errors import KilocardError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("calibrate")(calibrate)


def calibrate(
    source: Annotated[
        Path, typer.Argument(metavar="CASE.yaml|RUN.parquet", help="What was run, or a run of `bench`.")
    ],
    measured: Annotated[
        str,
        typer.Option(help="Beside a case: ttft_s=0.05,e2e_s=4.5 (means), or a JSON or YAML file of numbers."),
    ] = "",
    card: Annotated[
        str, typer.Option(help="Beside a run: the card it ran on; see `kilocard facts cards`.")
    ] = "",
    levels: Annotated[
        str, typer.Option(help="Beside a run: the concurrencies to fit to, like 1,16; else all.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Write the calibration here, for `simulate --calibration`.")
    ] = None,
    facts_path: FactsOption = "",
    as_json: JsonOption = False,
) -> None:
    """Fit coefficients to one run of a model, card and layout; prints the error on what it fitted and on
    the rest."""
    use_facts(facts_path)
    from kilocard.cli.calibration_report import calibration_of

    _require_what_counts(source, measured, card, levels)
    result = calibration_of(source, measured, card, levels, out)
    print_json(result) if as_json else _print(result, out)


def _require_what_counts(source: Path, measured: str, card: str, levels: str) -> None:
    """A run brings its numbers and a case its card: what the other one needs would have no effect."""
    if source.suffix == ".parquet":
        if measured:
            raise KilocardError(f"{source} is a run, which brings its own numbers: leave out --measured")
        if not card:
            raise KilocardError(
                f"{source} needs --card: which card did it run on? See `kilocard facts cards`"
            )
        return
    if vain := [f"--{name}" for name, value in (("card", card), ("levels", levels)) if value]:
        raise KilocardError(f"{source} is a case, not a run: leave out {' and '.join(vain)}")
    if not measured:
        raise KilocardError(
            f"{source} needs --measured: numbers such as ttft_s=0.05,e2e_s=4.5, or a file of them"
        )


def _print(result: dict[str, Any], out: Path | None) -> None:
    pairs = [(name, f"{value:.4g}") for name, value in result["coefficients"].items()]
    errors = [
        f"{row['what']}: measured {row['measured']:.4g}, predicted {100 * row['error']:+.1f} % "
        f"({'fitted' if row['fitted'] else 'left out of the fit'})"
        for row in result["rows"]
    ]
    where = (
        f"written to {out}" if out else "keep it with --out FILE, for `kilocard simulate --calibration FILE`"
    )
    promised = ", ".join(f"{name} {error:.1%}" for name, error in result["expected_error"].items())
    notes = [*errors, *result["notes"], f"median error to expect: {promised}", where]
    print_pairs(f"calibrated on {result['source']}:", pairs, notes)
