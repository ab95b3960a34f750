"""One gateway in one setting: fresh engines, a fresh gateway, the load of a seed, and its row."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import uvloop
from gateway_answers import Told, read
from gateway_client import Client, Exchange
from gateway_peers.place import Gateway
from gateway_peers.started import Started, fake_engines, served, started
from gateway_settings import SHORT_TOKENS, Setting
from peer_environment import PeerMissingError

CONNECTIONS = 128
"""Made before the clock runs."""
LEAST_BEYOND = 5
"""A percentile is told where so many rows lie beyond it."""


@dataclass(slots=True)
class Row:
    """One run. Times are the client's, milliseconds; what went wrong counts against the promise."""

    setting: str
    peer: str
    policy: str
    version: str
    round: int
    requests: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    ttft_p50_ms: float | None = None
    ttft_p99_ms: float | None = None
    tpot_p50_ms: float | None = None
    tpot_p99_ms: float | None = None
    """Milliseconds a token, (last − first) ÷ (tokens − 1), by request."""
    short_p99_ms: float | None = None
    """From sending to the last token, of the short ones."""
    goodput_share: float | None = None
    """Of the requests that were made, those answered whole within the promise."""
    goodput_per_s: float | None = None
    slow_share: float | None = None
    """Of the requests that were served, those that the slow engine served."""
    largest_share: float | None = None
    """The same, of the engine that served most."""
    cached_share: float | None = None
    """Of the prompt tokens, those that an engine's cache held."""
    cpu_ms_per_1000_chunks: float | None = None
    cpu_s_per_1000_requests: float | None = None
    memory_mb: float | None = None
    requests_per_s: float | None = None
    late_p99_ms: float | None = None
    """How late the client itself was."""
    problem: str = ""

    @property
    def name(self) -> str:
        """The gateway with its policy."""
        return f"{self.peer}, {self.policy}" if self.policy else self.peer


def measure(gateway: Gateway, setting: Setting, round_: int, measured_s: float) -> Row:
    """One run, of the round's own seed; what cannot be had here says so in its row."""
    row = Row(setting.name, gateway.peer, gateway.policy, "", round_)
    try:
        row.version = gateway.version()
        with (
            fake_engines(setting.script, setting.engines) as engines,
            started(gateway, engines.ports) as running,
        ):
            ran = _run(setting, running, engines, round_, measured_s)
    except PeerMissingError as error:
        row.problem = str(error)
        return row
    _fill(row, setting, ran)
    return row


@dataclass(slots=True)
class Ran:
    """What a run leaves."""

    start: float
    exchanges: list[Exchange]
    served: list[dict[str, Any]]
    wall_s: float
    cpu_s: float | None
    memory_mb: float | None


def _run(setting: Setting, running: Started | None, engines: Started, round_: int, measured_s: float) -> Ran:
    ports = engines.ports if running is None else running.ports
    client = Client(ports)
    play = setting.play(round_, measured_s)

    async def run() -> tuple[float, float, float]:
        await client.open(CONNECTIONS // len(ports))
        spent_s = running.cpu_s() if running else 0.0
        start = perf_counter()
        await play(client, start)
        wall_s = perf_counter() - start
        spent_s = running.cpu_s() - spent_s if running else 0.0
        client.close()
        return start, wall_s, spent_s

    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            start, wall_s, spent_s = runner.run(run())
    finally:
        gc.enable()
    memory_mb = running.memory_mb() if running else None
    return Ran(
        start, client.exchanges, served(engines.ports), wall_s, spent_s if running else None, memory_mb
    )


def _fill(row: Row, setting: Setting, ran: Ran) -> None:
    asked = {exchange.ask.request_id for exchange in ran.exchanges}
    log = [one for one in ran.served if one["request_id"] in asked]
    _cost(row, ran, log)
    told = [read(exchange, ran.start) for exchange in ran.exchanges]
    counted = [one for one in told if one.begun - ran.start >= setting.warm_s]
    row.requests = len(counted)
    row.ends = dict(Counter(one.status for one in counted))
    row.late_p99_ms = percentile([1000 * one.late_s for one in counted], 99)
    _times(row, setting, counted)
    within = sum(_keeps(one, setting) for one in counted)
    row.goodput_share = within / len(counted) if counted else None
    asked_s = max((one.begun for one in counted), default=ran.start) - ran.start - setting.warm_s
    if asked_s > 0:
        row.goodput_per_s = within / asked_s
        row.requests_per_s = row.ends.get("ok", 0) / asked_s
    _shares(row, setting, {one.request_id for one in counted}, log)


def _cost(row: Row, ran: Ran, log: Sequence[dict[str, Any]]) -> None:
    row.memory_mb = ran.memory_mb
    if ran.cpu_s is not None and log:
        row.cpu_ms_per_1000_chunks = 1e6 * ran.cpu_s / sum(one["output_tokens"] for one in log)
        row.cpu_s_per_1000_requests = 1e3 * ran.cpu_s / len(log)


def _times(row: Row, setting: Setting, counted: Sequence[Told]) -> None:
    ok = [one for one in counted if one.status == "ok" and one.first_token and one.last_token]
    ttft = [1000 * (one.first_token - one.begun) for one in ok if one.first_token]
    tpot = [1000 * tpot_s for one in ok if (tpot_s := _tpot_s(one)) is not None]
    short = [
        1000 * (one.last_token - one.begun) for one in ok if one.tokens == SHORT_TOKENS and one.last_token
    ]
    row.ttft_p50_ms, row.ttft_p99_ms = percentile(ttft, 50), percentile(ttft, 99)
    row.tpot_p50_ms, row.tpot_p99_ms = percentile(tpot, 50), percentile(tpot, 99)
    row.short_p99_ms = percentile(short, 99)


def _shares(row: Row, setting: Setting, counted: set[str], log: Sequence[dict[str, Any]]) -> None:
    mine = [one for one in log if one["request_id"] in counted]
    by_engine = Counter(one["engine"] for one in mine)
    if not mine:
        return
    row.largest_share = max(by_engine.values()) / len(mine)
    if setting.slow_one is not None:
        row.slow_share = by_engine[setting.slow_one] / len(mine)
    if setting.script.cached_tokens:
        prompt_tokens = sum(one["prompt_tokens"] for one in mine)
        row.cached_share = sum(one["cached_tokens"] for one in mine) / prompt_tokens


def _keeps(told: Told, setting: Setting) -> bool:
    if told.status != "ok" or told.first_token is None:
        return False
    tpot_s = _tpot_s(told)
    return told.first_token - told.begun <= setting.slo.ttft_s and (tpot_s or 0.0) <= setting.slo.tpot_s


def _e2e_s(told: Told) -> float:
    return (told.last_token or 0.0) - told.begun


def _tpot_s(told: Told) -> float | None:
    if told.tokens < 2 or told.first_token is None or told.last_token is None:
        return None
    return (told.last_token - told.first_token) / (told.tokens - 1)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """None where too few lie beyond it."""
    beyond = len(values) * min(percent, 100 - percent) / 100
    return float(np.percentile(values, percent)) if beyond >= LEAST_BEYOND else None
