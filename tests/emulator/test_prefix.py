"""Prompts that begin alike run through the same streams, as far as they are alike and no further."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kilocard.emulator.prefix import LEAST_MARKS, Path, PrefixNames

BLOCK_TOKENS = 4
PROMPTS = st.lists(st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=12), max_size=30)


def stream_at(path: Path, block: int) -> tuple[int, int]:
    """The stream of a block, and the block where it began: what an entry of a cache is told by."""
    began = 0
    for stream, end_tokens in path:
        if block * BLOCK_TOKENS < end_tokens:
            return stream, began
        began = end_tokens // BLOCK_TOKENS
    raise AssertionError(f"block {block} has no stream in {path}")


@given(PROMPTS)
def test_blocks_share_a_name_exactly_where_all_before_them_is_alike(prompts: list[list[bytes]]) -> None:
    names = PrefixNames(BLOCK_TOKENS, 0)
    named: dict[tuple[tuple[int, int], int], tuple[bytes, ...]] = {}
    seen: dict[tuple[bytes, ...], tuple[int, int]] = {}
    for prompt in prompts:
        path = names.path(prompt)
        ends = [0, *(end for _, end in path)]
        assert ends[-1] == BLOCK_TOKENS * len(prompt)
        assert all(before < after for before, after in pairwise(ends))
        assert len({stream for stream, _ in path}) == len(path)
        for block in range(len(prompt)):
            content, place = tuple(prompt[: block + 1]), stream_at(path, block)
            assert seen.setdefault(content, place) == place
            assert named.setdefault((place, block), content) == content


def test_what_goes_on_makes_its_stream_longer_and_what_branches_begins_another() -> None:
    names = PrefixNames(BLOCK_TOKENS, 0)
    assert names.path([b"a", b"b"]) == [(1, 8)]
    assert names.path([b"a", b"b", b"c", b"d"]) == [(1, 16)]
    assert names.path([b"a", b"b", b"x"]) == [(1, 8), (2, 12)]
    assert names.path([b"a", b"b", b"x", b"y"]) == [(1, 8), (2, 16)]
    assert names.path([b"b", b"a"]) == [(3, 8)]
    assert names.path([]) == []


def test_names_are_bounded() -> None:
    names = PrefixNames(BLOCK_TOKENS, 0)
    for number in range(3 * LEAST_MARKS):
        names.path([b"system", number.to_bytes(4, "big")])
    assert len(names) <= 2 * LEAST_MARKS + 2
    assert names.path([b"system", b"new"])[0][0] == names.path([b"system", b"newer"])[0][0]
