"""What one try says of its engine."""

from __future__ import annotations

import asyncio
from errno import ECONNREFUSED, ECONNRESET, EMFILE, ENFILE
from types import SimpleNamespace
from typing import Any

import pytest

from kilocard.gateway.attempt import Attempt
from kilocard.routing.health import ENGINES_OWN, Ending


class Failing:
    """Lines that cannot be had, and the call that is told so."""

    front = None
    arrival = SimpleNamespace(expected_tokens=1)

    def __init__(self, error: OSError) -> None:
        self.error, self.told = error, []  # type: ignore[var-annotated]

    def idle(self, now: float) -> None:
        return None

    async def dial(self) -> None:
        raise self.error

    def sent(self, *_: Any) -> int:
        return 0

    def mark(self, *_: Any) -> tuple[int, float]:
        return 0, 0.0

    def failed(self, attempt: Attempt, reason: str, status: int, ending: Ending) -> None:
        self.told.append((status, ending))


@pytest.mark.parametrize(
    ("number", "status", "is_engines_own"),
    [(ECONNREFUSED, 502, True), (ECONNRESET, 502, True), (EMFILE, 503, False), (ENFILE, 503, False)],
)
def test_where_the_gateway_may_open_no_more_files_no_engine_is_blamed(
    number: int, status: int, is_engines_own: bool
) -> None:
    async def scene() -> list[tuple[int, Ending]]:
        fails: Any = Failing(OSError(number, "cannot"))
        Attempt(fails, fails, SimpleNamespace(lines=fails)).start()  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        told: list[tuple[int, Ending]] = fails.told
        return told

    ((said, ending),) = asyncio.run(scene())
    assert (said, ending in ENGINES_OWN) == (status, is_engines_own)
