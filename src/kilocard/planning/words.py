"""Numbers of a plan in words."""

from __future__ import annotations

from kilocard.planning.capacity import Size
from kilocard.specs.slo import SLO


def limits(slo: SLO) -> str:
    """An SLO in words."""
    named = ((slo.ttft_p99_s, "TTFT P99"), (slo.tpot_p99_s, "TPOT P99"), (slo.e2e_p99_s, "E2E P99"))
    return ", ".join(f"{name} {milliseconds(limit)}" for limit, name in named if limit is not None)


def cards_of(size: Size) -> str:
    """With its headroom, without spares."""
    return f"{size.with_headroom * size.cards_per_replica:,}"


def or_unknown(value: float | None, form: str) -> str:
    """A number in its form."""
    return "unknown" if value is None else form.format(value)


def counted(number: int, noun: str) -> str:
    """One card, two cards."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def milliseconds(seconds: float | None) -> str:
    """Or seconds, from one up."""
    if seconds is None:
        return "–"
    return f"{1e3 * seconds:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
