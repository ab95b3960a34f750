"""After ten thousand requests, hang-ups at any moment among them, an emulator holds what it held before."""

import asyncio
import gc
import json
import os
import random
from pathlib import Path
from typing import Any

from emulator_client import case_of, run_with

from kilocard.emulator import Emulator

REQUESTS, WORKERS = 10_000, 50
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MOST_GROWTH_BYTES = 24 * 2**20


def request_of(number: int, chance: random.Random, most_tokens: int) -> bytes:
    stream = chance.random() < 0.5
    prompt = [7] * 32 + [number % 30_000] * chance.randrange(1, 40)
    body = {"prompt": prompt, "max_tokens": chance.randrange(1, most_tokens), "stream": stream}
    content = json.dumps(body).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(content) + content


async def work(port: int, numbers: range, hang_ups: bool) -> None:
    """Requests one after another on one connection; some are left in the middle."""
    chance = random.Random(numbers.start)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        leaves = hang_ups and chance.random() < 0.2
        writer.write(request_of(number, chance, 80 if leaves else 24))
        if leaves:
            await asyncio.sleep(chance.choice([0.001, 0.004]))
            writer.transport.abort()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        if b"chunked" in head:
            await reader.readuntil(b"0\r\n\r\n")
        else:
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
    writer.close()


async def load(emulator: Emulator, requests: int, hang_ups: bool) -> None:
    share = requests // WORKERS
    ports = [int(url.rpartition(":")[2]) for url in emulator.urls]
    jobs = [
        work(ports[n % len(ports)], range(n * share, (n + 1) * share), hang_ups and n % 4 < 2)
        for n in range(WORKERS)
    ]
    await asyncio.gather(*jobs)
    while any(site.engine.live or site.connections for site in emulator.sites):
        await asyncio.sleep(0.01)


def held_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def test_nothing_is_left_behind() -> None:
    """Few blocks and slots, so that requests wait, are preempted, and are cancelled wherever they are."""
    case = case_of(replicas=2, max_num_seqs=12, kv_blocks=20, max_model_len=200, max_num_batched_tokens=256)

    async def run(emulator: Emulator) -> None:
        await load(emulator, REQUESTS // 10, hang_ups=True)
        before = held_bytes()
        await load(emulator, REQUESTS, hang_ups=True)
        await asyncio.sleep(0.05)
        assert emulator.requests_held == 0
        for site in emulator.sites:
            engine: Any = site.engine
            assert (engine.running, engine.waiting, engine.live) == (0, 0, 0)
            assert engine.free_blocks == emulator.kv_blocks == 20
            assert engine.tally.aborted > 100
            assert engine.counters.preemptions > 0
        assert held_bytes() - before < MOST_GROWTH_BYTES

    run_with(run, case, speed=10)


def test_a_hang_up_frees_the_slot_at_once_for_who_waits() -> None:
    async def run(emulator: Emulator) -> None:
        port = int(emulator.urls[0].rpartition(":")[2])
        body = json.dumps({"prompt": [1] * 20, "max_tokens": 450, "stream": True}).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
        ask = head + b"content-length: %d\r\n\r\n" % len(body) + body
        lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in lines:
            writer.write(ask)
            await reader.readuntil(b"\r\n\r\n")
        await lines[0][0].readuntil(b"data: ")
        engine = emulator.sites[0].engine
        assert (engine.running, engine.waiting) == (1, 1)
        lines[0][1].transport.abort()
        await lines[1][0].readuntil(b"data: ")
        assert (engine.running, engine.waiting, engine.live) == (1, 0, 1)
        lines[1][1].transport.abort()
        while engine.live:
            await asyncio.sleep(0.005)
        assert engine.free_blocks == emulator.kv_blocks

    run_with(run, case_of(max_num_seqs=1))
