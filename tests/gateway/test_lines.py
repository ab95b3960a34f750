"""Connections to an engine: as many are held ready as the last burst needed, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilocard.gateway.lines import MOST_SPARE, Lines
from kilocard.gateway.upstream import Line

Accepted = list[asyncio.StreamWriter]


@asynccontextmanager
async def an_engine() -> AsyncIterator[tuple[Lines, Accepted]]:
    accepted: Accepted = []
    server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    lines = Lines("127.0.0.1", server.sockets[0].getsockname()[1], 1.0)
    yield lines, accepted
    lines.close()
    for writer in accepted:
        writer.close()
    server.close()


def tried(scene: Callable[[Lines, Accepted], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with an_engine() as (lines, accepted):
            return await scene(lines, accepted)

    return asyncio.run(run())


async def a_burst(lines: Lines, count: int) -> list[Line]:
    """So many requests at once, and all connections gone since."""
    busy = [await lines.dial() for _ in range(count)]
    for line in busy:
        line.abort()
    return busy


async def at_rest(lines: Lines) -> None:
    while lines._dialling is not None:
        await asyncio.sleep(0.001)


def held(lines: Lines, now: float) -> list[Line]:
    found = []
    while (line := lines.idle(now)) is not None:
        found.append(line)
    return found


@pytest.mark.parametrize(("burst", "ready"), [(0, 0), (1, 0), (20, 19), (200, MOST_SPARE)])
def test_after_a_burst_as_many_are_ready_as_it_needed(burst: int, ready: int) -> None:
    async def scene(lines: Lines, accepted: Accepted) -> list[int]:
        last = await a_burst(lines, burst)
        now = last[-1].used_at if last else 0.0
        lines.tidy(now, is_chosen=True)
        await at_rest(lines)
        return [len(held(lines, now)), len(held(lines, now))]

    assert tried(scene) == [ready, 0]


def test_an_engine_never_gets_more_connections_than_it_had_in_use_at_once() -> None:
    async def scene(lines: Lines, accepted: Accepted) -> list[int]:
        busy = [await lines.dial() for _ in range(10)]
        counts = []
        for second in range(3):
            lines.tidy(busy[0].used_at + second, is_chosen=True)
            await at_rest(lines)
            counts.append(len(lines._open))
        return counts

    assert tried(scene) == [10, 10, 10]


def test_a_burst_is_forgotten() -> None:
    async def scene(lines: Lines, accepted: Accepted) -> int:
        now = (await a_burst(lines, 30))[0].used_at
        for second in range(300):
            lines.tidy(now + second, is_chosen=True)
            await at_rest(lines)
        return len(lines._idle)

    assert tried(scene) == 0


def test_an_engine_that_is_not_chosen_gets_no_connection() -> None:
    async def scene(lines: Lines, accepted: Accepted) -> int:
        now = (await a_burst(lines, 30))[0].used_at
        lines.tidy(now, is_chosen=False)
        lines.tidy(now, is_chosen=True)
        await at_rest(lines)
        return len(held(lines, now))

    assert tried(scene) == 0


def test_an_engine_that_is_gone_is_not_dialled_again_and_again() -> None:
    async def scene(lines: Lines, accepted: Accepted) -> list[bool]:
        now = (await a_burst(lines, 30))[0].used_at
        lines._port = 1
        dialled = []
        for second in range(3):
            lines.tidy(now + second, is_chosen=True)
            dialled.append(lines._dialling is not None)
            await at_rest(lines)
        return dialled

    assert tried(scene) == [True, False, False]


def test_an_engine_that_closes_what_it_was_never_asked_on_gets_no_more_of_it() -> None:
    async def scene(lines: Lines, accepted: Accepted) -> list[int]:
        now = (await a_burst(lines, 8))[0].used_at
        dialled = []
        for second in range(3):
            lines.tidy(now + second, is_chosen=True)
            await at_rest(lines)
            await asyncio.sleep(0.02)
            dialled.append(len(accepted))
            for writer in accepted:
                writer.close()
            await asyncio.sleep(0.05)
        return [*dialled, len(held(lines, now))]

    assert tried(scene) == [15, 15, 15, 0]


def test_what_comes_back_after_the_end_is_closed() -> None:
    async def scene(lines: Lines, accepted: Accepted) -> list[bool]:
        line = await lines.dial()
        lines.close()
        lines.keep(line)
        lines.tidy(line.used_at, is_chosen=True)
        return [line.usable, lines._dialling is None, lines.idle(line.used_at) is None]

    assert tried(scene) == [False, True, True]
