"""What no load may exceed, each refused in one line."""

from __future__ import annotations

from kilocard.errors import KilocardError

MOST_TOKENS = 2**24
MOST_REQUESTS = 1_000_000
"""Of one stage: a run is held in memory."""

RATES_PER_S = (1e-6, 1e6)
SPREADS = (1e-3, 1e3)


def require(holds: bool, message: str) -> None:
    """Refuse what does not hold."""
    if not holds:
        raise KilocardError(message)


def require_tokens(name: str, count: float) -> None:
    """Refuse a number of tokens that no engine takes."""
    require(
        1 <= count <= MOST_TOKENS,
        f"{name} of {count} tokens is not possible: use 1 to {MOST_TOKENS:,}",
    )


def require_within(name: str, value: float, limits: tuple[float, float]) -> None:
    """Refuse a value beyond its limits, and what is no number."""
    least, most = limits
    require(least <= value <= most, f"{name} of {value} is not possible: use {least:g} to {most:g}")
