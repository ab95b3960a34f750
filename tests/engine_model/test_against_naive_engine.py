"""The engine model against vLLM's algorithm written down plainly: the same tokens at the same picosecond."""

from __future__ import annotations

import pytest
from demands import SHARING, demands, engines, with_room
from engine_tables import build, run
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_engine import NaiveEngine, Settings


@pytest.mark.parametrize("sharing", SHARING)
@given(engine=engines, data=st.data())
@settings(max_examples=60)
def test_every_request_fares_alike(sharing: str, engine: Settings, data: st.DataObject) -> None:
    asked = data.draw(demands(sharing))
    engine = with_room(engine, asked)
    naive = NaiveEngine(engine)
    naive.serve(asked)
    modelled = run(build(engine, asked))
    for name in ("arrival_ps", "first_ps", "last_ps", "preemptions", "cached"):
        assert modelled.tables.requests[name].tolist() == [getattr(one, name) for one in asked], name
    replica = modelled.replicas[0]
    assert replica.steps == naive.steps
    assert replica.computed_tokens == naive.computed_tokens
    assert len(naive.pool.free) == replica.free_blocks == engine.kv_blocks
