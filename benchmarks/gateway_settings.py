"""In what gateways are compared: how the engines are, what is asked of them, and the promise to keep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter

import numpy as np
from gateway_answers import read
from gateway_client import Ask, Client, Play, closed_loop, open_loop, sleep_until
from gateway_engine import Script

ENGINES = 8
SLOW_ONE, TIMES_SLOWER = 3, 5.0
SHORT_TOKENS, LONG_TOKENS, LONG_SHARE = 20, 400, 0.1
MEAN_TOKENS = SHORT_TOKENS * (1 - LONG_SHARE) + LONG_TOKENS * LONG_SHARE
SOUND = Script()
CAPACITY_PER_S = SOUND.seats / SOUND.tpot_s
"""Tokens of one engine."""
WARM_S = 4.0
STUDY_RATE_PER_S = 60.0

CONVERSATIONS, SYSTEM_PROMPTS, SYSTEM_WORDS, TURNS = 50, 5, 1000, 4
QUESTION_WORDS, ANSWER_TOKENS = 40, (20, 120)
THINK_S, CHAT_S = 0.5, 4.0
"""A mean wait before the next question, and the time over which the conversations of a group start."""


@dataclass(frozen=True, slots=True)
class Slo:
    """Both must hold. Fixed beforehand: twice the time that a token takes on an idle engine; in bursts four
    times, for half of all is served slower than twice even where nothing is wasted."""

    ttft_s: float = 0.1
    tpot_s: float = 0.01


@dataclass(frozen=True, slots=True)
class Setting:
    """One comparison: `play(seed, measured_s)` makes the load of a run."""

    name: str
    script: Script
    play: Callable[[int, float], Play]
    engines: int = ENGINES
    warm_s: float = WARM_S
    """Requests that begin earlier are made, but not counted."""
    slo: Slo = field(default_factory=Slo)
    slow_one: int | None = None


def mixed(
    rate_per_s: float, cv: float, warm_s: float = WARM_S, long_tokens: int = LONG_TOKENS
) -> Callable[[int, float], Play]:
    """Nine in ten short, one in ten long, in open loop; gamma arrivals, Poisson where `cv` is 1."""

    def play(seed: int, measured_s: float) -> Play:
        asks = mixed_asks(rate_per_s, cv, seed, warm_s + measured_s, long_tokens)

        async def run(client: Client, start: float) -> None:
            await open_loop(client, asks, start)

        return run

    return play


def mixed_asks(
    rate_per_s: float, cv: float, seed: int, duration_s: float, long_tokens: int = LONG_TOKENS
) -> list[Ask]:
    """The requests of `mixed`."""
    rng = np.random.default_rng(seed)
    shape = 1 / cv**2
    times = np.cumsum(rng.gamma(shape, 1 / (shape * rate_per_s), int(3 * rate_per_s * duration_s)))
    times = times[times < duration_s]
    tokens = np.where(rng.random(len(times)) < LONG_SHARE, long_tokens, SHORT_TOKENS)
    return [
        question(f"m{seed}-{number}", words(rng, 12), int(length), float(due))
        for number, (due, length) in enumerate(zip(times, tokens, strict=True))
    ]


def question(
    request_id: str, text: str, tokens: int, due_s: float | None = None, streamed: bool = True
) -> Ask:
    """One message."""
    messages = [{"role": "user", "content": f"{text} tokens={tokens}"}]
    return Ask(request_id, messages, tokens, due_s, is_streamed=streamed)


def words(rng: np.random.Generator, length: int) -> str:
    """Text that recurs nowhere."""
    return " ".join(f"{number:x}" for number in rng.integers(2**20, 2**28, length))


def chat(seed: int, measured_s: float) -> Play:
    """Groups of conversations, one group after another, each group with new system prompts."""
    groups = max(1, round(measured_s / CHAT_S))

    async def run(client: Client, start: float) -> None:
        async with asyncio.TaskGroup() as people:
            for group in range(groups):
                rng = np.random.default_rng((seed, group))
                systems = [words(rng, SYSTEM_WORDS) for _ in range(SYSTEM_PROMPTS)]
                for number in range(CONVERSATIONS):
                    begin = start + CHAT_S * (group + rng.random())
                    name = f"c{seed}-{group}-{number}"
                    system = systems[number % SYSTEM_PROMPTS]
                    people.create_task(converse(client, name, system, begin, (seed, group, number)))

    return run


async def converse(client: Client, name: str, system: str, begin: float, seed: tuple[int, ...]) -> None:
    """Four questions, each after the answer to the last and a while to read it."""
    rng = np.random.default_rng(seed)
    messages = [{"role": "system", "content": system}]
    await sleep_until(begin)
    for turn in range(TURNS):
        tokens = int(rng.integers(*ANSWER_TOKENS))
        messages.append({"role": "user", "content": f"{words(rng, QUESTION_WORDS)} tokens={tokens}"})
        exchange = await client.send(Ask(f"{name}-{turn}", list(messages), tokens, session=name))
        told = read(exchange, 0.0)
        if told.status != "ok":
            return
        messages.append({"role": "assistant", "content": told.text})
        await asyncio.sleep(rng.exponential(THINK_S))


def streams(workers: int, least: int, most: int) -> Callable[[int, float], Play]:
    """So many streams all the time, of `least` to `most` tokens."""

    def ask_of(number: int, rng: np.random.Generator) -> Ask:
        return question(f"s{number}", "how much does a token cost", int(rng.integers(least, most + 1)))

    return _closed(workers, ask_of, spread_s=1.0)


def short_answers(workers: int) -> Callable[[int, float], Play]:
    """Whole answers of a token, as fast as they come."""

    def ask_of(number: int, rng: np.random.Generator) -> Ask:
        return question(f"a{number}", "how much does a request cost", 1, streamed=False)

    return _closed(workers, ask_of, spread_s=0.0)


def _closed(
    workers: int, ask_of: Callable[[int, np.random.Generator], Ask], spread_s: float
) -> Callable[[int, float], Play]:
    def play(seed: int, measured_s: float) -> Play:
        rng, numbers = np.random.default_rng(seed), count()

        async def run(client: Client, start: float) -> None:
            def next_ask() -> Ask | None:
                return ask_of(next(numbers), rng) if perf_counter() < start + measured_s else None

            await closed_loop(client, next_ask, workers, spread_s)

        return run

    return play


SLOW = {str(SLOW_ONE): TIMES_SLOWER}
BURST_RATE_PER_S = 0.8 * ENGINES * CAPACITY_PER_S / MEAN_TOKENS
CHAT_SCRIPT = Script(prefill_s=1e-4, cached_tokens=16_000)
WITH_SLOW = Script(slow=SLOW)
IN_BURSTS = Slo(tpot_s=0.02)
CHAT = Setting("chat", CHAT_SCRIPT, chat, warm_s=0.0, slo=Slo(ttft_s=0.2))
BALANCE = (
    Setting("one slow", WITH_SLOW, mixed(STUDY_RATE_PER_S, 1.0), slow_one=SLOW_ONE),
    Setting("bursts", SOUND, mixed(BURST_RATE_PER_S, 4.0), slo=IN_BURSTS),
    CHAT,
)
WITHOUT_SLOW = Setting("without the slow one", SOUND, mixed(STUDY_RATE_PER_S, 1.0), engines=ENGINES - 1)
QUICK_WARM_S, QUICK_LONG_TOKENS = 0.5, 60
QUICK_BALANCE = (
    Setting(
        "one slow",
        WITH_SLOW,
        mixed(STUDY_RATE_PER_S, 1.0, QUICK_WARM_S, QUICK_LONG_TOKENS),
        warm_s=QUICK_WARM_S,
        slow_one=SLOW_ONE,
    ),
    Setting(
        "bursts",
        SOUND,
        mixed(BURST_RATE_PER_S, 4.0, QUICK_WARM_S, QUICK_LONG_TOKENS),
        warm_s=QUICK_WARM_S,
        slo=IN_BURSTS,
    ),
    CHAT,
)
OVERHEAD_SLO = Slo(ttft_s=0.1, tpot_s=0.05)
OVERHEAD = (
    Setting(
        "100 streams",
        Script(tpot_s=0.025, seats=64, first_steps=0.0),
        streams(100, 192, 320),
        warm_s=0.0,
        slo=OVERHEAD_SLO,
    ),
    Setting(
        "short answers",
        Script(tpot_s=0.0, first_steps=0.0),
        short_answers(32),
        warm_s=0.0,
        slo=OVERHEAD_SLO,
    ),
)
