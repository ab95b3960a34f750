"""Fabrics: groups inside a machine and beyond, from the facts of links."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.parallel import Fabric, Layout, Wire, fabric
from kilocard.specs.interconnect import Interconnect

MIB = 2**20
NVLINK, NETWORK = Wire(10e-6, 200e9), Wire(20e-6, 40e9)
EIGHT = Fabric(NVLINK, NETWORK, cards_per_node=8)
sizes = st.floats(1, 1e9)


def test_inside_a_machine_on_paper() -> None:
    assert EIGHT.allreduce_s(MIB, 4) == pytest.approx(2 * 10e-6 + 2 * 3 / 4 * MIB / 200e9)
    assert EIGHT.allreduce_s(MIB, 1) == 0


def test_two_machines_reduce_inside_then_a_share_each_across() -> None:
    inside = 3 * 10e-6 + 2 * 7 / 8 * MIB / 200e9
    across = 20e-6 + MIB / 8 / 40e9
    assert EIGHT.allreduce_s(MIB, 16) == pytest.approx(inside + across)


@given(sizes, st.sampled_from([2, 4, 8]))
def test_leaving_the_machine_always_costs(size: float, ranks: int) -> None:
    assert EIGHT.allreduce_s(size, 2 * 8) > EIGHT.allreduce_s(size, 8)
    spread = Fabric(NVLINK, NETWORK, cards_per_node=ranks // 2)
    assert spread.allreduce_s(size, ranks) > EIGHT.allreduce_s(size, ranks)


@given(sizes, st.floats(0.05, 1))
def test_a_lower_share_for_long_messages_touches_only_them(size: float, share: float) -> None:
    slowed = Fabric(NVLINK, long_share=share)
    plain, long = EIGHT.allreduce_s(size, 4), slowed.allreduce_s(size, 4)
    assert long == plain if size <= 32 * MIB else long >= plain


def test_a_group_that_fills_its_machines_unevenly_is_refused() -> None:
    with pytest.raises(KilocardError, match="9 cards are not spread evenly over 2 machines of 8"):
        EIGHT.allreduce_s(MIB, 9)


def test_a_group_without_a_network_cannot_leave_its_machine() -> None:
    with pytest.raises(KilocardError, match="no network is known"):
        Fabric(NVLINK).allreduce_s(MIB, 16)


@pytest.mark.parametrize("size", [-1, float("nan"), float("inf"), None, "x"])
def test_a_message_of_no_size_crosses_no_fabric(size: float) -> None:
    for ranks in (1, 4, 16):
        with pytest.raises(KilocardError, match="bytes: give"):
            EIGHT.allreduce_s(size, ranks)
    with pytest.raises(KilocardError, match="bytes: give"):
        EIGHT.send_s(size)


@pytest.mark.parametrize("ranks", [0, 1.5, float("nan"), float("inf"), None, [4]])
def test_a_group_of_no_whole_number_spans_no_machine(ranks: int) -> None:
    with pytest.raises(KilocardError, match="a group has 1 or more"):
        EIGHT.allreduce_s(MIB, ranks)


def test_a_fabric_that_cannot_be_is_refused() -> None:
    with pytest.raises(KilocardError, match="0 cards a machine"):
        Fabric(NVLINK, cards_per_node=0)
    for share in (0.0, -1.0, float("nan")):
        with pytest.raises(KilocardError, match="of the rate for long messages"):
            Fabric(NVLINK, long_share=share)


def test_the_cards_own_link_is_as_the_engine_reaches_it() -> None:
    found = fabric("h100-sxm", start_s=9.75e-6, share=0.5)
    assert found.inside == Wire(9.75e-6, 225e9)


def test_a_start_of_nothing_is_a_start_and_no_default() -> None:
    assert fabric("h100-sxm", start_s=0.0).inside.start_s == 0


def test_another_link_is_as_much_worse_as_others_measured_it() -> None:
    pcie, nvlink = facts.link("pcie4-x16"), facts.link("nvlink4")
    assert pcie.allreduce_start_us and pcie.allreduce_share and nvlink.allreduce_share
    found = fabric("h100-sxm", Interconnect(link="pcie4-x16"), start_s=8.7e-6, share=0.41)
    assert found.inside.start_s == pytest.approx(pcie.allreduce_start_us * 1e-6)
    assert found.inside.bytes_per_s == pytest.approx(
        32e9 * 0.41 * pcie.allreduce_share / nvlink.allreduce_share
    )


def test_cards_that_share_a_port_share_its_rate() -> None:
    found = fabric("h100-sxm", Interconnect(network="ethernet-25g", cards_per_node=4))
    assert found.across is not None
    assert found.across.bytes_per_s == pytest.approx(3.125e9 * 0.54 / 4)


def test_an_unknown_rate_is_named() -> None:
    with pytest.raises(KilocardError, match="no rate is known for the link pcie-unspecified of k100-ai"):
        fabric("k100-ai")


def test_a_layout_counts_its_cards() -> None:
    layout = Layout(tensor_parallel=4, pipeline_parallel=2, data_parallel=3)
    assert (layout.cards_per_replica, layout.cards) == (8, 24)
    assert str(layout) == "TP 4 × PP 2 × DP 3"
    assert layout.flags() == ["--tensor-parallel-size", "4", "--pipeline-parallel-size", "2"]
    assert Layout(16).cuts_across_machines() and not Layout(8).cuts_across_machines()
    assert str(Layout(8, expert_parallel=True)) == "TP 8 with expert parallel"


def test_machines_hold_whole_replicas() -> None:
    assert Layout(4, 1, 3).machines(6) == 3
    assert Layout(4, 1, 3).machines(8) == 2
    assert Layout(8, 2, 3).machines(8) == 6
    assert Layout(1, 1, 9).machines(8) == 2


@pytest.mark.parametrize("degrees", [(0, 1, 1), (1, -1, 1), (1, 1, 2.0), (True, 1, 1)])
def test_a_degree_that_is_no_count_is_refused(degrees: tuple[int, int, int]) -> None:
    with pytest.raises(KilocardError, match="whole numbers from 1"):
        Layout(*degrees)
