"""One question of the gateway's own to an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from kilocard.gateway import events
from kilocard.gateway.member import Member
from kilocard.gateway.upstream import Line
from kilocard.routing.health import Ending, ending_of

MOST_BYTES = 2**20


class Heard:
    """What came back, and how it ended; times are those of the first and the last piece."""

    relay: Callable[[bytes], None] | None = None

    def __init__(self) -> None:
        self.ending = Ending.HANG
        self.status = self.events = 0
        self.first_s = self.last_s = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.content = b""
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._is_full = False
        self.is_over = self.is_unheard = False

    def on_head(self, status: int, kind: bytes, retry_after: bytes) -> None:
        """Its head."""
        self.status, self._is_full = status, bool(retry_after)

    def on_pieces(self, content: bytes, now: float) -> None:
        """A piece of it."""
        self._bytes += len(content)
        if self._bytes > MOST_BYTES:
            self.end(Ending.FAULT)
            return
        self._pieces.append(content)
        self.events += events.count(content)
        self.first_s = self.first_s or now
        self.last_s = now

    def on_end(self) -> None:
        """Whole."""
        self.is_over = True
        self.end(ending_of(self.status, self._is_full))

    def on_broken(self, reason: str, unheard: bool) -> None:
        """Not whole."""
        self.is_over, self.is_unheard = True, unheard
        self.end(Ending.CUT)

    def end(self, ending: Ending) -> None:
        """The first end is the one that counts."""
        if not self.done.done():
            self.ending, self.content = ending, b"".join(self._pieces)
            self.done.set_result(None)


async def ask(member: Member, content: bytes, timeout_s: float) -> Heard:
    """Send a whole request, on an idle connection of the clients' requests if there is one; never raises for
    what the engine does."""
    line = member.lines.idle(perf_counter())
    heard = await _ask_on(line, member, content, timeout_s)
    return await _ask_on(None, member, content, timeout_s) if heard.is_unheard else heard


async def _ask_on(line: Line | None, member: Member, content: bytes, timeout_s: float) -> Heard:
    heard = Heard()
    try:
        async with asyncio.timeout(timeout_s):
            if line is None:
                line = await member.lines.dial()
                line.is_kept = False
            line.send(heard, content)
            await heard.done
    except TimeoutError:
        heard.end(Ending.HANG)
    except ConnectionRefusedError:
        heard.end(Ending.REFUSED)
    except OSError:
        heard.end(Ending.CUT)
    finally:
        if line is not None and not heard.is_over:
            line.abort()
    return heard
