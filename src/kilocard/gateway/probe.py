"""A tiny real completion at one engine: whether it answers, and how fast its tokens come."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import msgspec

from kilocard.gateway import events
from kilocard.gateway.member import Member
from kilocard.gateway.question import ask
from kilocard.routing.health import Ending

PATH = b"/v1/completions"
TOKENS = 4


@dataclass(frozen=True, slots=True)
class Probed:
    """How a probe ended; `tokens` came in `seconds` after the first, and are 0 where that says nothing."""

    ending: Ending
    tokens: int = 0
    seconds: float = 0.0


async def probe(member: Member, model: str, timeout_s: float) -> Probed:
    """Ask for a few tokens."""
    heard = await ask(member, _question(member, model), timeout_s)
    ending = heard.ending
    if ending is Ending.OK and events.error_in(heard.content):
        ending = Ending.FAULT
    tokens = heard.events - 2  # the last says the finish reason or the usage, and then there is [DONE]
    paced = ending is Ending.OK and tokens > 0 and heard.last_s > heard.first_s
    return Probed(ending, tokens, heard.last_s - heard.first_s) if paced else Probed(ending)


def _question(member: Member, model: str) -> bytes:
    body = {"model": model, "prompt": "ping", "max_tokens": TOKENS, "temperature": 0, "stream": True}
    content = msgspec.json.encode(body)
    head = b"x-request-id: probe-%x\r\ncontent-length: %d\r\n\r\n" % (int(perf_counter() * 1e6), len(content))
    return member.opening(PATH) + head + content
