"""What each replica was sent lately, so that a prompt can go where its beginning is in a cache already.

A prompt is a chain of keys, each for all that comes before its end; a later one counts only where all earlier
ones are held. The tables are of fixed size: what came last to a place stays.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled, compiled_entry

Ints = NDArray[np.int64]

FEW_PLACES = 8192
"""Keys that are kept of a replica: the last few hundred conversations."""
BYTES_PER_TOKEN = 4
"""Of English text in the vocabularies of today's models, about; a guess of lengths needs no more."""
FIRST_STEP_BYTES = 256
MOST_KEYS = 32


class Held(NamedTuple):
    """By replica and place: a key, and up to which token it was sent; 0 where nothing was."""

    keys: Ints
    ends: Ints


def new_held(replicas: int, places: int = FEW_PLACES) -> Held:
    """Of replicas that have been sent nothing; `places` is a power of two."""
    return Held(np.zeros((replicas, places), np.int64), np.zeros((replicas, places), np.int64))


@compiled
def place_of(held: Held, key: int) -> int:
    """Where a key stands, if it does: hashes fall anywhere, numbers given in turn fall side by side."""
    return key & (held.keys.shape[1] - 1)


@compiled
def find(held: Held, keys: Ints, ends: Ints, cached: Ints) -> None:
    """Of a prompt with these keys, up to these tokens: how many of its tokens each replica has met."""
    for r in range(len(cached)):
        met = 0
        for i in range(len(keys)):
            place = place_of(held, keys[i])
            if held.ends[r, place] == 0 or held.keys[r, place] != keys[i]:
                break
            met = min(ends[i], held.ends[r, place])
            if met < ends[i]:
                break
        cached[r] = met


@compiled
def remember(held: Held, r: int, keys: Ints, ends: Ints) -> None:
    """A replica was sent a prompt with these keys, up to these tokens."""
    for i in range(len(keys)):
        place = place_of(held, keys[i])
        held.keys[r, place] = keys[i]
        held.ends[r, place] = ends[i]


@compiled
def forget(held: Held, r: int) -> None:
    """The replica's process was started anew."""
    for place in range(held.keys.shape[1]):
        held.ends[r, place] = 0


def keys_of(content: bytes, salt: bytes = b"") -> tuple[Ints, Ints]:
    """The keys of a prompt, and the token up to which each reaches, in guessed tokens.

    They end where `boundaries` says, so that prompts that begin alike share keys; what comes after the last
    full one has none. Prompts of different salts share nothing.
    """
    digest = blake2b(digest_size=8, key=blake2b(salt).digest())
    keys, ends, begin = [], [], 0
    for end in _BOUNDARIES:
        if end > len(content):
            break
        digest.update(content[begin:end])
        keys.append(int.from_bytes(digest.copy().digest(), "little", signed=True))
        ends.append(end // BYTES_PER_TOKEN)
        begin = end
    return np.array(keys, np.int64), np.array(ends, np.int64)


def boundaries() -> tuple[int, ...]:
    """Byte counts at which keys end: eight small steps, then four of each double size, up to 128 KiB."""
    ends: list[int] = []
    step = FIRST_STEP_BYTES
    for number in range(MOST_KEYS):
        step *= 2 if number >= 8 and number % 4 == 0 else 1
        ends.append(step + (ends[-1] if ends else 0))
    return tuple(ends)


_BOUNDARIES = boundaries()


@lru_cache(maxsize=1)
def in_machine_code() -> tuple[Any, Any, Any]:
    """`find`, `remember` and `forget` for callers in Python."""
    held, ints, number = typeof(new_held(1, 1)), types.int64[::1], types.int64
    plain = [getattr(part, "py_func", part) for part in (find, remember, forget)]
    signatures = [
        types.void(held, ints, ints, ints),
        types.void(held, number, ints, ints),
        types.void(held, number),
    ]
    found, remembered, forgotten = map(compiled_entry, plain, signatures)
    return found, remembered, forgotten
