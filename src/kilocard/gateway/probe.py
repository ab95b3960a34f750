"""A tiny real completion at one engine: whether it answers, and how fast its tokens come."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter

import msgspec

from kilocard.gateway import events
from kilocard.gateway.member import Member
from kilocard.gateway.upstream import Line
from kilocard.routing.health import Ending, ending_of

PATH = b"/v1/completions"
TOKENS = 4
MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Probed:
    """How a probe ended; the pace is None where fewer than two tokens came apart."""

    ending: Ending
    tokens: int = 0
    seconds: float = 0.0


class _Ear:
    """Hears one answer."""

    takes_chunks = False

    def on_chunk(self, framed: bytes, now: float) -> None:
        raise NotImplementedError

    def __init__(self) -> None:
        self.done: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.events, self.first_s, self.last_s, self.status = 0, 0.0, 0.0, 0
        self._is_full = False
        self.content: list[bytes] = []
        self._bytes = 0

    def on_head(self, status: int, kind: bytes, retry_after: bytes) -> None:
        self.status, self._is_full = status, bool(retry_after)

    def on_pieces(self, content: bytes, now: float) -> None:
        self._bytes += len(content)
        if self._bytes > MOST_BYTES:
            self._end(Ending.FAULT)
            return
        self.content.append(content)
        self.events += events.count(content)
        self.first_s = self.first_s or now
        self.last_s = now

    def on_end(self) -> None:
        self._end(ending_of(self.status, self._is_full))

    def on_broken(self, reason: str, unheard: bool) -> None:
        self._end(Ending.CUT)

    def _end(self, ending: Ending) -> None:
        if not self.done.done():
            self.done.set_result(ending)


async def ask(member: Member, model: str, timeout_s: float) -> Probed:
    """Ask for a few tokens on a connection of its own. An engine that refuses the question is alive: only
    what is its own fault counts against it."""
    line: Line | None = None
    try:
        async with asyncio.timeout(timeout_s):
            line = await member.lines.dial()
            line.is_kept = False
            ear = _Ear()
            line.send(ear, _question(member, model))
            ending = await ear.done
    except TimeoutError:
        return Probed(Ending.HANG)
    except ConnectionRefusedError:
        return Probed(Ending.REFUSED)
    except OSError:
        return Probed(Ending.CUT)
    finally:
        if line is not None:
            line.abort()
    if ending is Ending.OK and events.error_in(b"".join(ear.content)):
        ending = Ending.FAULT
    tokens = ear.events - 2  # the last says the finish reason or the usage, and then there is [DONE]
    paced = ending is Ending.OK and tokens > 0 and ear.last_s > ear.first_s
    return Probed(ending, tokens, ear.last_s - ear.first_s) if paced else Probed(ending)


def _question(member: Member, model: str) -> bytes:
    body = {"model": model, "prompt": "ping", "max_tokens": TOKENS, "temperature": 0, "stream": True}
    content = msgspec.json.encode(body)
    head = b"x-request-id: probe-%x\r\ncontent-length: %d\r\n\r\n" % (int(perf_counter() * 1e6), len(content))
    return member.opening(PATH) + head + content
