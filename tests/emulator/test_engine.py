"""An emulated engine's own time: it can begin anew, and a process that wakes late loses no token."""

import asyncio
import time
from typing import Any

import pytest
from emulator_client import ask, case_of, run_with

from kilocard.emulator import Emulator

BODY: dict[str, Any] = {"prompt": [7] * 40, "max_tokens": 30}


async def answered(emulator: Emulator) -> Any:
    return (await asyncio.to_thread(ask, emulator.urls[0], "/v1/completions", BODY)).json


def test_an_idle_engine_can_begin_its_time_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kilocard.emulator.engine.FAR_PS", 1)

    async def run(emulator: Emulator) -> None:
        engine = emulator.sites[0].engine
        for number in range(1, 6):
            said = await answered(emulator)
            assert said["usage"]["completion_tokens"] == 30
            assert engine.tally.finished["length"] == number
            await asyncio.sleep(0.01)
        assert 5 * 0.1 < engine.tally.whole.total < 5 * 1.5
        assert emulator.requests_held == 0

    run_with(run, speed=10)


def test_a_process_that_sleeps_hands_out_every_token_when_it_wakes() -> None:
    async def run(emulator: Emulator) -> None:
        asking = asyncio.create_task(answered(emulator))
        engine = emulator.sites[0].engine
        while not engine.live:
            await asyncio.sleep(0.001)
        time.sleep(0.4)
        said = await asking
        assert said["usage"]["completion_tokens"] == 30
        assert engine.tally.lateness.total > 0.1

    run_with(run, case_of())


def test_a_request_finds_its_own_prompt_again_only_where_prefixes_are_cached() -> None:
    async def cached(emulator: Emulator) -> int:
        await answered(emulator)
        told = (await answered(emulator))["usage"]["prompt_tokens_details"]["cached_tokens"]
        return int(told)

    assert run_with(cached, speed=20) == 32
    assert run_with(cached, case_of(enable_prefix_caching=False), speed=20) == 0
