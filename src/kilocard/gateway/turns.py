"""What takes long is done a little at a time, between whatever else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from math import ceil
from typing import TypeVar

T = TypeVar("T")
FEW, MOST_TURNS = 32, 32
"""Of calls or connections, looked after in one go: a fraction of a millisecond; and in how many."""


async def in_turns(all_of_them: Iterable[T]) -> AsyncIterator[T]:
    """Each of those who are there now; after some of them whoever asks something meanwhile has a turn. A busy
    loop has long turns, so there are not many."""
    there = list(all_of_them)
    some = max(FEW, ceil(len(there) / MOST_TURNS))
    for number, one in enumerate(there, start=1):
        yield one
        if number % some == 0:
            await asyncio.sleep(0)
