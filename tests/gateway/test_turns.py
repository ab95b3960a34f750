"""What takes long is done in turns: nobody waits for all of it."""

from __future__ import annotations

import asyncio

import pytest

from kilocard.gateway.turns import FEW, MOST_TURNS, in_turns


@pytest.mark.parametrize(("count", "least"), [(10 * FEW, 10), (100 * FEW, MOST_TURNS)])
def test_while_many_are_looked_after_others_have_some_turns(count: int, least: int) -> None:
    async def scene() -> tuple[list[int], int]:
        turns = 0

        async def another() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(another())
        seen = [one async for one in in_turns(range(count))]
        task.cancel()
        return seen, turns

    seen, turns = asyncio.run(scene())
    assert seen == list(range(count)) and least <= turns <= MOST_TURNS + 1


def test_who_goes_meanwhile_and_who_comes_breaks_nothing() -> None:
    async def scene() -> set[int]:
        here, seen = set(range(3 * FEW)), set()
        async for one in in_turns(here):
            seen.add(one)
            here.discard(one)
            here.add(1000 + one)
        return seen

    assert asyncio.run(scene()) == set(range(3 * FEW))
