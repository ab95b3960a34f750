"""What no engine can have shown: numbers out of any range, given twice, or at odds with each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kilocard.errors import KilocardError
from kilocard.fleet.observation import STATISTICS, Value

SECONDS = (1e-6, 1e6)
TOKENS_PER_S = (1e-6, 1e9)


def require_plausible(values: Sequence[Value]) -> tuple[Value, ...]:
    """The values, or an error on the first that cannot have been measured."""
    known: dict[tuple[int, str, str], Value] = {}
    for value in values:
        _require_in_range(value)
        key = (value.stage, value.metric, value.statistic)
        if key in known:
            raise KilocardError(
                f"{value.label} is given twice, as {known[key].measured:g} and {value.measured:g}: "
                "leave one out"
            )
        known[key] = value
    for value in values:
        if value.metric == "ttft_s":
            _require_at_most(value, known.get((value.stage, "e2e_s", value.statistic)))
    for stage, metric in dict.fromkeys((value.stage, value.metric) for value in values):
        ranks = [known.get((stage, metric, name)) for name in STATISTICS if name != "mean"]
        given = [value for value in ranks if value]
        for lower, higher in pairwise(given):
            _require_at_most(lower, higher)
    return tuple(values)


def _require_in_range(value: Value) -> None:
    is_rate = value.metric == "output_tokens_per_s"
    if is_rate and value.statistic != "mean":
        raise KilocardError(f"{value.label}: a throughput is one number, without a {value.statistic}")
    least, most = TOKENS_PER_S if is_rate else SECONDS
    if not least <= value.measured <= most:
        unit = "tokens/s" if is_rate else "s"
        raise KilocardError(
            f"{value.label} is {value.measured:g}, which no engine shows: give {least:g} to {most:g} {unit}"
        )


def _require_at_most(lower: Value, higher: Value | None) -> None:
    if higher and lower.measured > higher.measured:
        raise KilocardError(
            f"{lower.label} is {lower.measured:g}, above {higher.metric} {higher.statistic} "
            f"{higher.measured:g}: it cannot be; check both"
        )
