"""A sweep: what each level of load buys in throughput and costs in TPOT, with the knee marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt

from kilocard.notebook import style
from kilocard.notebook.figures.curves import Curve, curves_alt, draw_curves, label_axes, mark
from kilocard.notebook.records import PublishedSweep
from kilocard.record import Kind, Run, Stamp
from kilocard.roofline import Roofline
from kilocard.stats import summarise

MOST_TICKS = 8


@dataclass(frozen=True, slots=True)
class Sweep:
    """One engine's levels of concurrency: throughput and TPOT at each."""

    name: str
    concurrency: Sequence[float]
    output_tokens_per_s: Sequence[float]
    tpot_s: Sequence[float]
    kind: Kind
    colour: str = style.DECODE

    @classmethod
    def of(cls, run: Run, name: str, colour: str = style.DECODE) -> Sweep:
        """The sweep that a run made: medians of TPOT, throughput of each level's steady window."""
        levels = [stage for stage in summarise(run) if stage.concurrency and stage.tpot_s.p50]
        return cls(
            name,
            [float(level.concurrency or 0) for level in levels],
            [level.output_tokens_per_s or 0.0 for level in levels],
            [level.tpot_s.p50 or 0.0 for level in levels],
            run.stamp.kind,
            colour,
        )

    @classmethod
    def published(cls, name: str, sweep: PublishedSweep, colour: str = style.DECODE) -> Sweep:
        """A sweep that somebody else measured; a throughput they left out is concurrency over TPOT."""
        table = sweep.table
        implied = table["concurrency"] / (table["tpot_ms"] / 1000)
        throughput = table["output_tokens_per_s"].fillna(implied)
        return cls(
            name,
            list(table["concurrency"]),
            list(throughput),
            list(table["tpot_ms"] / 1000),
            Kind.PUBLISHED,
            colour,
        )

    @classmethod
    def bound(cls, name: str, bounds: Sequence[Roofline], colour: str = style.FAINT) -> Sweep:
        """What a datasheet allows at each batch."""
        return cls(
            name,
            [bound.batch for bound in bounds],
            [bound.decode_tokens_per_s for bound in bounds],
            [bound.decode_step_s for bound in bounds],
            Kind.DERIVED,
            colour,
        )


def sweep_figure(
    sweeps: Sequence[Sweep], *, title: str, stamp: Stamp | str, knee: float | None = None, log_y: bool = False
) -> None:
    """Throughput and TPOT side by side on concurrency; `knee` marks the level to run at."""
    throughput = [_curve(sweep, sweep.output_tokens_per_s) for sweep in sweeps]
    tpot = [_curve(sweep, [1000 * value for value in sweep.tpot_s]) for sweep in sweeps]
    levels = sorted({level for sweep in sweeps for level in sweep.concurrency})
    with style.look():
        figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2))
        for axes, curves, y_label in (
            (left, throughput, "Output tokens/s"),
            (right, tpot, "TPOT, ms a token"),
        ):
            draw_curves(axes, curves)
            label_axes(axes, "Concurrent requests", y_label, log_x=True, log_y=log_y)
            if knee is not None:
                mark(axes, knee, f"knee {knee:g}")
            if len(levels) <= MOST_TICKS:
                axes.set_xticks(levels)
                axes.minorticks_off()
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=3)
        alt = f"{_alt(throughput, 'Output tokens per second')} {_alt(tpot, 'TPOT in milliseconds')}"
        style.show(figure, title=title, alt=alt + (f" The knee is at {knee:g}." if knee else ""), stamp=stamp)


def _curve(sweep: Sweep, y: Sequence[float]) -> Curve:
    return Curve(sweep.name, sweep.concurrency, y, sweep.kind, sweep.colour, joined=True)


def _alt(curves: Sequence[Curve], what: str) -> str:
    return curves_alt(curves, "concurrent requests", what)
