"""What an emulated engine reads and says: tokens estimated from bytes, and answers of three-letter words.

A token is taken to be four bytes of text. A word with its space is four bytes too, so an answer that comes
back in the next turn counts as many tokens as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

BYTES_A_TOKEN = 4
WORDS = (
    *("the", "sun", "and", "sea", "are", "old", "but", "new", "day", "air", "ice", "oak", "elm", "fox"),
    *("owl", "bee", "ant", "cat", "dog", "hen", "cow", "ram", "ewe", "map", "key", "box", "cup", "jar"),
    *("pan", "pot", "bed", "rug", "mat", "hat", "cap", "tie", "pen", "ink", "art", "ode"),
)
_TAPE_WORDS = 4096


def _tape() -> bytes:
    """A fixed run of words, which every answer is cut from."""
    words, state = [], 1
    for _ in range(_TAPE_WORDS):
        state = state * 48_271 % 2_147_483_647
        words.append(" " + WORDS[state % len(WORDS)])
    return "".join(words).encode()


_TAPE = _tape()


def tokens_of(text: bytes) -> int:
    """The estimate: a token for every four bytes begun."""
    return -(-len(text) // BYTES_A_TOKEN)


def answer_to(prompt: bytes, seed: int, tokens: int) -> bytes:
    """So many words, the same for the same prompt and seed."""
    at = BYTES_A_TOKEN * (crc32(prompt, seed & 0xFFFFFFFF) % _TAPE_WORDS)
    length = BYTES_A_TOKEN * tokens
    if at + length <= len(_TAPE):
        return _TAPE[at : at + length]
    return (_TAPE[at:] + _TAPE * (length // len(_TAPE) + 1))[:length]


def whole_blocks(content: bytes, block_bytes: int) -> Iterator[bytes]:
    """The content in pieces of a block; what is left over is none."""
    for end in range(block_bytes, len(content) + 1, block_bytes):
        yield content[end - block_bytes : end]
