"""A guess of how many tokens an answer will have, from those that the same tenant had to like requests.

A row holds a tenant's answers under limits of like size: clients that want short answers tend to say so, and
where the limit says nothing, all fall into one row.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

ROWS = 4096
"""So many are kept, and shared by who falls together: a stranger's guess, until the next few answers."""
FIRST_GUESS_TOKENS = 256.0
MEMORY_ANSWERS = 16.0
"""So many answers later, what was seen before weighs 1/e."""


class Seen(NamedTuple):
    """By row: how many answers, up to some, and their rolling mean."""

    answers: list[float]
    mean_tokens: list[float]


def new_seen(rows: int = ROWS) -> Seen:
    """Nothing seen yet."""
    return Seen([0.0] * rows, [0.0] * rows)


def row_of(seen: Seen, tenant: str, max_tokens: int) -> int:
    """The row of a tenant's requests whose limit has as many binary digits; 0 stands for no limit."""
    return crc32(b"%d %b" % (max_tokens.bit_length(), tenant.encode())) % len(seen.answers)


def guess(seen: Seen, row: int, max_tokens: int) -> int:
    """Tokens to expect, 1 at least, and no more than the limit where there is one."""
    tokens = seen.mean_tokens[row] if seen.answers[row] else FIRST_GUESS_TOKENS
    expected = max(1, round(tokens))
    return min(expected, max_tokens) if max_tokens > 0 else expected


def learn(seen: Seen, row: int, tokens: int) -> None:
    """An answer came to its end by itself, after so many tokens."""
    seen.answers[row] = min(seen.answers[row] + 1, MEMORY_ANSWERS)
    seen.mean_tokens[row] += (tokens - seen.mean_tokens[row]) / seen.answers[row]
