"""A cancelled request leaves nothing behind: neither slot nor block nor name, whatever it was doing."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.emulator.rows import RequestRows
from kilocard.engine_model.compiled import NEVER_PS
from kilocard.engine_model.state import REPLICA, SLOT, Engines, Tables, new_entries, new_replica, table

BLOCK_TOKENS = 4
MOST_TOKENS = 60


def rows_of(kv_blocks: int, max_num_seqs: int, budget: int, lag: int, by_priority: int) -> RequestRows:
    """One replica with little of everything."""
    replicas = table(1, REPLICA)
    replicas.kv_blocks, replicas.block_tokens, replicas.prefix_caching = kv_blocks, BLOCK_TOKENS, 1
    replicas.max_num_seqs, replicas.max_num_batched_tokens = max_num_seqs, budget
    replicas.lag, replicas.by_priority, replicas.slow_permille = lag, by_priority, 1000
    replicas.kv_token_ps = replicas.sequence_ps = replicas.pair_ps = 1
    new_replica(replicas[0])
    base_ps = np.full((1, budget + 1), 1000)
    engines = Engines(replicas, table((1, max_num_seqs), SLOT), base_ps, Tables(None, None, new_entries(64)))
    return RequestRows(engines, first_rows=4)


class Bench:
    """Drives the rows of one replica by hand, and looks at its books after every step."""

    def __init__(self, rows: RequestRows) -> None:
        self.rows = rows
        self.event_ps = NEVER_PS
        self.now_ps = 0
        self.here: list[Any] = []

    @property
    def replica(self) -> Any:
        return self.rows.engines.replicas[0]

    def enter(self, prompt: int, output: int, stream: int, priority: int) -> None:
        asked = SimpleNamespace(prompt_tokens=prompt, output_tokens=output, priority=priority)
        whole = prompt // BLOCK_TOKENS * BLOCK_TOKENS
        request = SimpleNamespace(asked=asked, path=[(stream, whole)] if whole else [], row=-1, tokens=0)
        self.event_ps = self.rows.enter(0, request, self.now_ps)
        self.here.append(request)

    def cancel(self, place: int) -> None:
        if self.here:
            request = self.here.pop(place % len(self.here))
            self.rows.withdraw(0, request.row)

    def step(self) -> None:
        if self.event_ps == NEVER_PS:
            return
        self.now_ps = max(self.now_ps, self.event_ps)
        self.event_ps, _, lucky = self.rows.advance(0)
        for request in lucky:
            request.tokens += 1
            assert request.tokens <= request.asked.output_tokens
            if request.tokens == request.asked.output_tokens:
                self.here.remove(request)
        self.check_books()

    def check_books(self) -> None:
        """Every block is free or held, once."""
        free, engines = self.rows.free_blocks(0), self.rows.engines
        entries, replica = engines.tables.entries, self.replica
        named = np.unique(entries.place[entries.place != 0])
        held = sum(int(entries[at].cached) for at in named if entries[at].references > 0)
        held += sum(int(slot.blocks - slot.shared_blocks) for slot in engines.slots[0][: replica.occupied])
        assert free + held == replica.kv_blocks
        listed, at = int(replica.unnamed_blocks), int(replica.oldest)
        while at:
            assert entries[at].references == 0
            listed += int(entries[at].cached + entries[at].unnamed_after)
            at = int(entries[at].newer)
        assert listed == free

    def drain(self) -> None:
        for _ in range(20_000):
            if self.event_ps == NEVER_PS:
                return
            self.step()
        raise AssertionError("the engine never comes to rest")


ACTIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("enter"), st.integers(1, 40), st.integers(1, 20), st.integers(1, 4), st.integers(0, 1)
        ),
        st.tuples(st.just("step"), st.integers(1, 4)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
    ),
    max_size=60,
)


@settings(max_examples=60)
@given(ACTIONS, st.integers(MOST_TOKENS // BLOCK_TOKENS, 40), st.integers(1, 6), st.sampled_from([8, 64]),
       st.integers(0, 1), st.integers(0, 1))  # fmt: skip
def test_whatever_is_cancelled_nothing_leaks_and_the_others_get_all_their_tokens(
    actions: list[Any], kv_blocks: int, seqs: int, budget: int, lag: int, by_priority: int
) -> None:
    bench = Bench(rows_of(kv_blocks, seqs, budget, lag, by_priority))
    for action, *values in actions:
        if action == "enter":
            bench.enter(*values)
        elif action == "cancel":
            bench.cancel(values[0])
            bench.check_books()
        else:
            for _ in range(values[0]):
                bench.step()
    bench.drain()
    assert bench.here == []
    assert bench.rows.taken == 0
    assert (bench.replica.occupied, bench.replica.waiting) == (0, 0)
    assert bench.rows.free_blocks(0) == kv_blocks


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 6])
def test_a_request_can_be_cancelled_while_it_waits_prefills_decodes_or_ends(steps: int) -> None:
    bench = Bench(rows_of(kv_blocks=20, max_num_seqs=2, budget=8, lag=1, by_priority=0))
    bench.enter(20, 3, 1, 0)
    bench.enter(20, 3, 2, 0)
    for _ in range(steps):
        bench.step()
    bench.cancel(0)
    bench.check_books()
    bench.drain()
    assert bench.rows.taken == 0
    assert bench.rows.free_blocks(0) == 20


def test_what_a_cancelled_request_computed_of_a_shared_prompt_is_met_by_the_next() -> None:
    bench = Bench(rows_of(kv_blocks=40, max_num_seqs=2, budget=64, lag=1, by_priority=0))
    bench.enter(41, 20, 1, 0)
    for _ in range(3):
        bench.step()
    bench.cancel(0)
    bench.enter(41, 1, 1, 0)
    bench.drain()
    assert bench.replica.hit_tokens == 40
