"""What the wiring means, box by box."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from test_topology_matrix import matrices

from kilocard.errors import KilocardError
from kilocard.topology import (
    Finding,
    Host,
    Nic,
    NumaNode,
    TopologyMatrix,
    advise,
    parse_rocm_topology,
    parse_topology,
    pinning_of,
    reading,
)

FIXTURES = Path(__file__).parents[2] / "data" / "published" / "topologies"
BIG = Host(
    tuple(range(224)),
    tuple(
        NumaNode(node, (*range(node * 56, node * 56 + 56), *range(112 + node * 56, 168 + node * 56)))
        for node in range(2)
    ),
    tuple((core, core + 112) for core in range(112)),
)


def box(name: str) -> TopologyMatrix:
    text = (FIXTURES / f"{name}.txt").read_text()
    return parse_rocm_topology(text) if name.startswith("rocm") else parse_topology(text)


def found(matrix: TopologyMatrix | None, host: Host = BIG, ranks: int | None = None) -> dict[str, Finding]:
    return {finding.about: finding for finding in advise(matrix, host, ranks)}


def test_a_full_mesh_is_one_island_with_nothing_to_change() -> None:
    told = found(box("dgx-h100"))
    assert "TP up to 8" in told["links"].means
    assert not told["links"].change
    assert not {"custom allreduce", "pairs over SYS", "cards without a NIC"} & set(told)
    assert "GPU7: NIC11 (PXB)" in told["nearest NICs"].found


def test_pairs_are_islands_and_lose_custom_allreduce_beyond() -> None:
    told = found(box("eight-a100-in-pairs"))
    assert "GPU0,1 by NV12" in told["links"].found
    assert "2 cards" in told["links"].means
    assert "GPU0-GPU4" in told["pairs over SYS"].found
    assert "custom allreduce" in told


def test_a_lone_card_is_named() -> None:
    told = found(box("pair-and-lone-card"))
    assert "alone: GPU2" in told["links"].found
    assert told["nearest NICs"].found == "GPU0,1: NIC0, NIC1 (NODE); GPU2: NIC0, NIC1 (PHB)"


def test_pcie_cards_are_told_their_closest() -> None:
    told = found(box("five-pcie-cards"))
    assert "no NVLink" in told["links"].found
    assert told["closest cards"].found == "GPU1,2; GPU3,4"
    assert "custom allreduce" not in found(box("two-5090"))


def test_an_empty_cell_is_a_card_without_cores() -> None:
    host = Host((*range(44, 52), *range(148, 156)))
    told = found(box("container-cpuset"), host)
    assert told["cards without cores"].found.startswith("GPU1, GPU2, GPU3: no usable core of NUMA node 1")
    assert pinning_of(box("container-cpuset"), host) == {
        "GPU0": "44-51,148-155",
        "GPU1": "",
        "GPU2": "",
        "GPU3": "",
    }


def test_nothing_is_said_of_cores_where_nothing_is_known() -> None:
    assert "cards without cores" not in found(box("rocm-four-pcie"))


def test_cards_of_a_node_share_its_cores() -> None:
    pinned = pinning_of(box("dgx-h100"), BIG)
    assert pinned["GPU0"] == "0-13"
    assert pinned["GPU7"] == "98-111"
    assert "--numa-bind-nodes 0 0 0 0 1 1 1 1" in found(box("dgx-h100"))["pinning"].change


def test_cards_across_the_sockets_from_every_nic() -> None:
    matrix = box("four-v100")
    told = found(replace(matrix, nic_links=(("SYS",), ("SYS",), ("PIX",), ("PIX",))))
    assert told["cards without a NIC"].found.startswith("GPU0,1")
    assert told["nearest NICs"].found == "GPU2,3: mlx5_0 (PIX)"


def test_a_cpu_box_gets_its_binding() -> None:
    told = found(None, BIG, 4)
    assert told["pinning"].change == "VLLM_CPU_OMP_THREADS_BIND='0-26|27-53|56-82|83-109'"
    assert "one thread of each core" in told["SMT"].change
    assert "2 of 2 nodes" in told["cores"].found


def test_two_cores_are_few_for_two_ranks() -> None:
    told = found(None, Host((0, 1), (NumaNode(0, (0, 1)),)))
    assert "nothing to pin across" in told["cores"].means
    assert told["cores for ranks"].change == "use 1 rank here, or 3 cores"
    assert told["pinning"].change == "VLLM_CPU_OMP_THREADS_BIND='0|1'"


def test_more_ranks_than_physical_cores_share_one() -> None:
    told = found(None, Host((0, 1, 2, 3), siblings=((0, 2), (1, 3))), 4)
    assert "two ranks share one" in told["SMT"].means
    assert "pinning" not in told


def test_a_quota_under_the_cores_is_told() -> None:
    told = found(None, Host(tuple(range(8)), quota_cores=2.5))
    assert "2.5 cores" in told["CPU quota"].found
    assert "start 2 threads" in told["CPU quota"].change
    assert "CPU quota" not in found(None, Host((0, 1), quota_cores=2))


@pytest.mark.parametrize(
    ("nic", "said"),
    [
        (Nic("eth0", 10**9, "virtio_net", is_physical=True), "eth0 under 25 Gb/s"),
        (Nic("eth0", 10**11, "mlx5_core", 0, "mlx5_0", True), "RDMA"),
        (Nic("eth0", is_physical=True), "no RDMA"),
    ],
)
def test_what_a_nic_means(nic: Nic, said: str) -> None:
    assert said in found(None, Host((0, 1), nics=(nic,)))["network"].means


@given(matrices())
def test_every_matrix_has_its_advice(matrix: TopologyMatrix) -> None:
    told = advise(matrix, BIG)
    assert {finding.about for finding in told} >= {"links", "cores"}
    assert all("\n" not in f"{finding.found}{finding.means}{finding.change}" for finding in told)


def test_a_tool_that_lacks_is_no_matrix_and_one_that_fails_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reading.read_matrix() is None
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\nexec /bin/cat {FIXTURES / 'two-5090.txt'}\n")
    tool.chmod(0o755)
    matrix = reading.read_matrix()
    assert matrix is not None
    assert matrix.card_links[0][1] == "PHB"
    tool.write_text("#!/bin/sh\necho no devices were found\n")
    with pytest.raises(KilocardError, match="no devices were found"):
        reading.read_matrix()
    tool.write_text("#!/bin/sh\necho no driver >&2; exit 9\n")
    with pytest.raises(KilocardError, match=r"`nvidia-smi topo -m` failed \(exit 9: no driver\)"):
        reading.read_matrix()


def test_a_finding_has_a_meaning() -> None:
    with pytest.raises(KilocardError):
        Finding("links", "one card", "")
