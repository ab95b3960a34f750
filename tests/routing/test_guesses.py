"""Guesses of lengths: within the limit, learned from like requests, in a table that does not grow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kilocard.routing.lengths import guess, learn, new_seen, row_of


@given(
    st.lists(st.tuples(st.text(max_size=8), st.integers(0, 10**6), st.integers(0, 10**6)), max_size=50),
    st.integers(0, 10**6),
)
def test_a_guess_is_within_the_limit(answers: list[tuple[str, int, int]], limit: int) -> None:
    seen = new_seen(64)
    for tenant, most, tokens in answers:
        learn(seen, row_of(seen, tenant, most), tokens)
    for tenant, _, _ in [*answers, ("stranger", 0, 0)]:
        expected = guess(seen, row_of(seen, tenant, limit), limit)
        assert expected >= 1 and (limit == 0 or expected <= max(1, limit))
    assert len(seen.answers) == len(seen.mean_tokens) == 64


def test_it_comes_to_what_a_tenant_gets() -> None:
    seen = new_seen()
    short, long = row_of(seen, "a", 32), row_of(seen, "a", 4096)
    for _ in range(100):
        learn(seen, short, 20)
        learn(seen, long, 400)
    assert guess(seen, short, 32) == 20 and guess(seen, long, 4096) == 400
    for _ in range(100):
        learn(seen, long, 80)
    assert 79 <= guess(seen, long, 4096) <= 82


def test_a_row_is_the_same_in_every_process() -> None:
    assert row_of(new_seen(), "tenant", 512) == row_of(new_seen(), "tenant", 1000)
    assert row_of(new_seen(), "tenant", 512) == 3871
