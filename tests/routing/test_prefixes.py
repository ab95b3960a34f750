"""What caches were sent: found up to where prompts begin alike, never further, in tables that do not grow."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.routing.prefixes import (
    BYTES_PER_TOKEN,
    FEW_PLACES,
    MOST_KEYS,
    boundaries,
    in_machine_code,
    keys_of,
    new_held,
)

FIND, REMEMBER, FORGET = in_machine_code()
STEPS = boundaries()


def found(held, content: bytes, replicas: int = 2, salt: bytes = b"") -> list[int]:
    keys, ends = keys_of(content, salt)
    cached = np.full(replicas, -1)
    FIND(held, keys, ends, cached)
    return cached.tolist()


@given(st.binary(max_size=200), st.integers(0, 6000), st.integers(0, 3000), st.integers(0, 3000))
@settings(max_examples=100, deadline=None)
def test_keys_are_shared_as_far_as_beginnings_are(seed: bytes, same: int, one: int, other: int) -> None:
    begin = (seed + b"x") * (same // (len(seed) + 1) + 1)
    first, second = begin[:same] + b"a" * one, begin[:same] + b"b" * other
    keys, ends = keys_of(first)
    others, _ = keys_of(second)
    alike = sum(end <= same for end in STEPS)
    shared = min(alike, len(keys), len(others))
    assert (keys[:shared] == others[:shared]).all()
    assert not set(keys[shared:].tolist()) & set(others[shared:].tolist())
    held = new_held(2)
    REMEMBER(held, 1, keys, ends)
    places = (keys & (FEW_PLACES - 1)).tolist()  # where two keys fall on one place, the later one stays
    met = next((i for i in range(shared) if places[i] in places[i + 1 :]), shared)
    assert found(held, second) == [0, int(ends[met - 1]) if met else 0]


def test_there_are_few_keys_and_their_ends_lie_close_at_first() -> None:
    assert len(STEPS) == MOST_KEYS
    assert all(STEPS[i + 1] - STEPS[i] <= max(256, STEPS[i] // 4) for i in range(len(STEPS) - 1))
    keys, ends = keys_of(b"a" * 10_000_000)
    assert len(keys) == MOST_KEYS and ends[-1] == STEPS[-1] // BYTES_PER_TOKEN


def test_other_salts_share_nothing() -> None:
    held, content = new_held(2), b"a" * 2000
    REMEMBER(held, 0, *keys_of(content, b"one"))
    assert found(held, content, salt=b"one")[0] > 0
    assert found(held, content, salt=b"other") == found(held, content) == [0, 0]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 6)), max_size=60))
@settings(max_examples=100, deadline=None)
def test_what_is_found_was_sent(chains: list[tuple[int, int, int]]) -> None:
    """Chains of streams by number, in so small a table that they push each other out."""
    held = new_held(3, places=16)
    room = held.keys.nbytes
    sent: dict[int, set[tuple[int, ...]]] = {0: set(), 1: set(), 2: set()}
    for r, first, length in chains:
        keys = np.arange(first, first + length)
        ends = 100 * np.arange(1, length + 1)
        cached = np.zeros(3, np.int64)
        FIND(held, keys, ends, cached)
        for other in range(3):
            depth = int(cached[other]) // 100
            assert all(any(key in chain for chain in sent[other]) for key in keys[:depth].tolist())
        REMEMBER(held, r, keys, ends)
        sent[r].add(tuple(keys.tolist()))
        FIND(held, keys, ends, cached)
        assert cached[r] == 100 * length
    assert held.keys.nbytes == room


def test_a_stream_is_held_as_far_as_it_was_sent() -> None:
    held, cached = new_held(1), np.zeros(1, np.int64)
    REMEMBER(held, 0, np.array([5]), np.array([300]))
    FIND(held, np.array([5, 6]), np.array([800, 900]), cached)
    assert cached.tolist() == [300]
    FORGET(held, 0)
    FIND(held, np.array([5]), np.array([200]), cached)
    assert cached.tolist() == [0]
