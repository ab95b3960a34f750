"""Pipelines: the bubble, and how layers are dealt out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.parallel import bubble_share, idle_share
from kilocard.parallel.pipeline import stage_layers

stages = st.integers(1, 32)
batches = st.integers(1, 1000)


def passed(count: int, depth: int) -> int:
    """Steps until the last of `count` batches has left the last of `depth` stages, moved one by one."""
    places, waiting, left, steps = [0] * depth, count, 0, 0
    while left < count:
        left += places.pop()
        places.insert(0, 1 if waiting else 0)
        waiting -= waiting > 0
        steps += 1
    return steps - 1


@given(st.integers(1, 40), st.integers(1, 12))
def test_the_bubble_is_what_batches_moved_one_by_one_leave_idle(count: int, depth: int) -> None:
    steps = passed(count, depth)
    assert bubble_share(count, depth) == pytest.approx(1 - count / steps)


@given(batches, stages)
def test_more_batches_leave_less_idle_and_more_stages_more(count: int, depth: int) -> None:
    assert bubble_share(count + 1, depth) <= bubble_share(count, depth) <= bubble_share(count, depth + 1)
    assert 0 <= idle_share(count, depth) < 1
    assert idle_share(count, depth) == 0 or count < depth


def test_one_request_in_four_stages_leaves_three_idle() -> None:
    assert idle_share(1, 4) == 0.75
    assert bubble_share(1, 4) == 0.75


@given(st.integers(1, 200), stages)
def test_every_layer_is_dealt_to_one_stage_and_the_last_never_has_most(layers: int, depth: int) -> None:
    if depth > layers:
        with pytest.raises(KilocardError, match="each stage needs one"):
            stage_layers(layers, depth)
        return
    dealt = stage_layers(layers, depth)
    assert sum(dealt) == layers and len(dealt) == depth
    assert max(dealt) - min(dealt) <= 1
    assert dealt[-1] == min(dealt)


@pytest.mark.parametrize("depth", [0, -1, 1.5, True, float("nan"), float("inf"), None, [2]])
@pytest.mark.parametrize("form", [bubble_share, idle_share, stage_layers])
def test_a_pipeline_of_no_whole_number_is_refused(form, depth) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KilocardError, match="a pipeline has 1 or more"):
        form(8, depth)


@pytest.mark.parametrize("count", [0, -1, float("nan"), None, "x", [1, 0]])
def test_no_batch_is_refused(count: float) -> None:
    for form in (bubble_share, idle_share):
        with pytest.raises(KilocardError, match="batches: give"):
            form(count, 2)


def test_layers_are_a_whole_number() -> None:
    assert stage_layers(10, 4.0) == stage_layers(10, 4) == [2, 3, 3, 2]  # type: ignore[arg-type]
    for layers in (0, 9.5, float("nan"), None):
        with pytest.raises(KilocardError, match="a model has 1 or more"):
            stage_layers(layers, 1)  # type: ignore[arg-type]
