"""Collectives: what they must obey whatever the wire, and the textbook's numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.parallel import Wire, all_to_all_s, allreduce_s, message_s, one_shot_s, ring_s, two_shot_s

wires = st.builds(Wire, st.floats(0, 1e-2), st.floats(1e6, 1e13))
sizes = st.floats(1, 1e10)
groups = st.integers(2, 64)
NAN, INF = float("nan"), float("inf")
NO_SIZE = (-1, NAN, INF, None, "x", [1e3, -1], [[1], [1, 2]])
FORMS = (ring_s, one_shot_s, two_shot_s, all_to_all_s, allreduce_s)


def test_a_ring_of_eight_on_paper() -> None:
    wire = Wire(5e-6, 100e9)
    assert ring_s(8e9, 8, wire) == pytest.approx(2 * 7 * 5e-6 + 2 * 7 / 8 * 8e9 / 100e9)
    assert one_shot_s(8e9, 8, wire) == pytest.approx(5e-6 + 7 * 8e9 / 100e9)
    assert two_shot_s(8e9, 8, wire) == pytest.approx(10e-6 + 2 * 7 / 8 * 8e9 / 100e9)
    assert message_s(1e9, wire) == pytest.approx(5e-6 + 0.01)


@pytest.mark.parametrize("form", FORMS)
@given(wire=wires, size=sizes, ranks=groups)
def test_a_longer_message_is_never_cheaper(form, wire, size, ranks) -> None:  # type: ignore[no-untyped-def]
    assert form(2 * size, ranks, wire) >= form(size, ranks, wire)


@pytest.mark.parametrize("form", FORMS)
@given(wire=wires, size=sizes, ranks=groups)
def test_a_larger_group_is_never_cheaper(form, wire, size, ranks) -> None:  # type: ignore[no-untyped-def]
    assert form(size, ranks + 1, wire) >= form(size, ranks, wire) * (1 - 1e-12)


@pytest.mark.parametrize("form", FORMS)
@given(wire=wires, size=sizes)
def test_nobody_waits_alone(form, wire, size) -> None:  # type: ignore[no-untyped-def]
    assert form(size, 1, wire) == 0


@given(wires, sizes, groups)
def test_no_allreduce_moves_less_than_its_bound(wire: Wire, size: float, ranks: int) -> None:
    bound_s = 2 * (ranks - 1) / ranks * size / wire.bytes_per_s
    assert allreduce_s(size, ranks, wire) >= bound_s * (1 - 1e-9) or ranks == 2


@given(wires, groups)
def test_one_shot_wins_while_starts_cost_more_than_bytes(wire: Wire, ranks: int) -> None:
    assert one_shot_s(0, ranks, wire) <= two_shot_s(0, ranks, wire) <= ring_s(0, ranks, wire)
    size = 1e12
    slack_s = 2 * ranks * wire.start_s
    assert ring_s(size, ranks, wire) <= one_shot_s(size, ranks, wire) + slack_s


def test_arrays_go_in_and_come_out() -> None:
    sizes_bytes = np.array([1e3, 1e6])
    both = allreduce_s(sizes_bytes, 4, Wire(1e-6, 1e9))
    assert [float(allreduce_s(size, 4, Wire(1e-6, 1e9))) for size in sizes_bytes] == pytest.approx(both)


@pytest.mark.parametrize("wire", [(-1.0, 1e9), (float("nan"), 1e9), (1e-6, 0.0), (1e-6, float("inf"))])
def test_a_wire_that_cannot_be_is_refused(wire: tuple[float, float]) -> None:
    with pytest.raises(KilocardError, match="a rate over 0"):
        Wire(*wire)


NO_COUNT = (0, -1, 1.5, True, NAN, INF, None, "2", [2], np.array([2]), 10**400)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranks", NO_COUNT)
def test_a_group_of_no_whole_number_is_refused(form, ranks) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KilocardError, match="a group has 1 or more") as refused:
        form(1, ranks, Wire(1e-6, 1e9))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("form", [*FORMS, lambda size, _, wire: message_s(size, wire)])
@pytest.mark.parametrize("size", NO_SIZE)
def test_a_message_of_no_size_is_refused(form, size) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KilocardError, match="bytes: give"):
        form(size, 2, Wire(1e-6, 1e9))


def test_a_whole_number_is_one_however_it_is_written() -> None:
    wire = Wire(1e-6, 1e9)
    assert ring_s(1e6, np.int64(4), wire) == ring_s(1e6, 4.0, wire) == ring_s(1e6, 4, wire)  # type: ignore[arg-type]
