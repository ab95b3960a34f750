"""Results of a run as one JSON object, or as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kilocard.record import Run, Status
from kilocard.record.plain import to_json
from kilocard.stats import Quantiles, StageSummary, knee_of

COLUMNS = (
    *("level", "requests", "ok", "req/s", "out tok/s"),
    *("TTFT mean", "p50", "p95", "p99"),
    *("TPOT mean", "p50", "p95", "p99"),
)
ABSENT = "–"


def as_json(
    run: Run, stages: Sequence[StageSummary], groups: Mapping[str, StageSummary] | None = None, **extra: Any
) -> str:
    """Stages, knee, stamp, and what the command adds."""
    knee = knee_of(stages)
    result = {
        "stages": [stage.to_dict() for stage in stages],
        "knee": asdict(knee) if knee else None,
        "stamp": asdict(run.stamp),
        **(
            {"groups": {name: group.to_dict() for name, group in groups.items()}}
            if groups is not None
            else {}
        ),
        **extra,
    }
    return to_json(result)


def as_table(
    run: Run, stages: Sequence[StageSummary], groups: Mapping[str, StageSummary] | None = None
) -> str:
    """Milliseconds; a percentile with fewer than 5 rows beyond it is a dash."""
    named = groups.items() if groups is not None else ((_level(stage), stage) for stage in stages)
    rows = [COLUMNS, *(_row(name, stage) for name, stage in named)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([run.stamp.caption, "latencies in ms", *lines, *_notes(run, stages)])


def _row(name: str, stage: StageSummary) -> tuple[str, ...]:
    return (
        name,
        str(stage.requests),
        str(stage.status.get(Status.OK.value, 0)),
        _number(stage.requests_per_s, 2),
        _number(stage.output_tokens_per_s, 1),
        *_milliseconds(stage.ttft_s),
        *_milliseconds(stage.tpot_s),
    )


def _milliseconds(values: Quantiles) -> list[str]:
    shown = (values.mean, values.p50, values.p95, values.p99)
    return [_number(None if value is None else 1000 * value, 1) for value in shown]


def _number(value: float | None, digits: int) -> str:
    return ABSENT if value is None else f"{value:,.{digits}f}"


def _level(stage: StageSummary) -> str:
    if stage.concurrency:
        return str(stage.concurrency)
    return f"{stage.rate_per_s:g}/s" if stage.rate_per_s else str(stage.stage)


def _span(stage: StageSummary) -> str:
    if stage.window is None:
        return "no window"
    name = (
        "the steady window" if stage.window.rule == "steady" else "the whole stage (it has no steady window)"
    )
    return f"{name} of {stage.window.seconds:.1f} s"


def _notes(run: Run, stages: Sequence[StageSummary]) -> list[str]:
    notes = []
    knee = knee_of(stages)
    if knee:
        beyond = "" if knee.reached else " (the last level: the knee may lie beyond it)"
        notes.append(f"knee: {knee.concurrency} concurrent{beyond}")
    for stage in stages:
        if stage.goodput_ratio is not None:
            notes.append(
                f"goodput at {_level(stage)}: {_number(stage.goodput_per_s, 2)} requests/s in {_span(stage)};"
                f" attainment: {stage.goodput_ratio:.1%} of all {stage.requests} requests met the SLO"
            )
    if not run.stamp.valid:
        notes.append(f"not valid: {run.stamp.invalid_reason}")
    return notes
