"""A machine is read from /sys, whatever of it is missing; cores are shared out by node and physical core."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.launch.command import share_cores
from kilocard.topology import Host, NumaNode, omp_bind, pin_ranks, read_host


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def two_sockets() -> dict[str, str]:
    """16 threads of 8 cores on two nodes; thread n and n + 8 share a core."""
    files = {
        "devices/system/node/node0/cpulist": "0-3,8-11\n",
        "devices/system/node/node1/cpulist": "4-7,12-15\n",
        "devices/system/node/node0/meminfo": "Node 0 MemTotal:       16777216 kB\n",
        "devices/system/node/node0/distance": "10 21\n",
        "devices/system/node/node1/distance": "21 10\n",
        "devices/system/node/online": "0-1\n",
        "class/net/eth0/speed": "25000\n",
        "class/net/eth0/operstate": "up\n",
        "class/net/eth0/device/numa_node": "1\n",
        "class/net/eth1/speed": "-1\n",
        "class/net/eth1/operstate": "down\n",
        "class/net/eth1/device/numa_node": "-1\n",
        "class/net/veth7/operstate": "down\n",
        "class/net/lo/operstate": "unknown\n",
        "class/infiniband/mlx5_0/device/net/eth0/mtu": "1500\n",
        "class/infiniband/mlx5_1/ports/1/rate": "400 Gb/sec (4X NDR)\n",
        "class/infiniband/mlx5_1/ports/1/state": "4: ACTIVE\n",
        "fs/cgroup/cpu.max": "400000 100000\n",
    }
    for core in range(16):
        files[f"devices/system/cpu/cpu{core}/topology/thread_siblings_list"] = f"{core % 8},{core % 8 + 8}\n"
    return files


def test_a_machine_of_two_sockets(tmp_path: Path) -> None:
    host = read_host(write(tmp_path, two_sockets()), range(16))
    assert [node.cores for node in host.nodes] == [(0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)]
    assert host.nodes[0].memory_bytes == 16 * 2**30
    assert host.nodes[1].memory_bytes is None
    assert host.nodes[1].distances == (21, 10)
    assert host.physical_cores == tuple(range(8))
    assert host.siblings[3] == (3, 11)
    assert host.quota_cores == 4


def test_nics_with_their_speed_node_and_rdma(tmp_path: Path) -> None:
    eth0, eth1, alone = read_host(write(tmp_path, two_sockets()), range(16)).nics
    assert (eth0.bits_per_s, eth0.numa_node, eth0.rdma, eth0.is_up) == (25 * 10**9, 1, "mlx5_0", True)
    assert (eth1.bits_per_s, eth1.numa_node, eth1.rdma, eth1.is_up) == (None, None, None, False)
    assert (alone.name, alone.bits_per_s, alone.rdma, alone.is_up) == ("mlx5_1", 400 * 10**9, "mlx5_1", True)


def test_a_cpuset_leaves_only_its_own(tmp_path: Path) -> None:
    host = read_host(write(tmp_path, two_sockets()), (1, 5, 9))
    assert host.cores_by_node == {0: (1, 9), 1: (5,)}
    assert host.physical_cores == (1, 5)


@given(st.sets(st.sampled_from(sorted(two_sockets()))), st.sampled_from(("", "-1", "x" * 300, "9-1", "\0é")))
def test_no_file_is_needed_and_none_is_trusted(
    tmp_path_factory: pytest.TempPathFactory, kept: set[str], text: str
) -> None:
    files = {name: content if name in kept else text for name, content in two_sockets().items()}
    host = read_host(write(tmp_path_factory.mktemp("sys"), files), range(4))
    assert host.cores == (0, 1, 2, 3)
    assert sum(map(len, host.cores_by_node.values())) == 4


@pytest.mark.parametrize("text", ["9" * 400 + " 100000", "0 100000", "100000 0", "max 100000", "²³ 100000"])
def test_a_quota_of_none_or_beyond_all_numbers_is_unknown(tmp_path: Path, text: str) -> None:
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    (tmp_path / "fs/cgroup/cpu.max").write_text(text, encoding="utf-8")
    assert read_host(tmp_path, (0, 1)).quota_cores is None


def test_a_box_without_sys_still_has_its_cores(tmp_path: Path) -> None:
    host = read_host(tmp_path, (0, 1, 2))
    assert host == Host((0, 1, 2))
    assert host.cores_by_node == {0: (0, 1, 2)}
    assert pin_ranks(host, 2) == ((0,), (1,))


def test_this_box_is_read() -> None:
    host = read_host()
    assert host.cores
    assert set(host.physical_cores) <= set(host.cores)


@st.composite
def hosts(draw: st.DrawFn) -> Host:
    """Machines of 1 to 4 nodes, with or without a second thread a core, of which some threads may be used."""
    each, nodes, threads = draw(st.integers(1, 8)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    count = each * nodes
    mine = [
        NumaNode(
            node,
            tuple(
                core + thread * count
                for thread in range(threads)
                for core in range(node * each, node * each + each)
            ),
        )
        for node in range(nodes)
    ]
    cores = draw(st.sets(st.integers(0, count * threads - 1), min_size=1))
    groups = [tuple(core + thread * count for thread in range(threads)) for core in range(count)]
    usable = [tuple(core for core in group if core in cores) for group in groups]
    return Host(tuple(sorted(cores)), tuple(mine), tuple(group for group in usable if len(group) > 1))


@given(hosts(), st.integers(1, 12))
def test_ranks_get_cores_of_their_own_on_one_node(host: Host, ranks: int) -> None:
    try:
        shares = pin_ranks(host, ranks)
    except KilocardError:
        assert ranks > len(host.physical_cores)
        return
    pinned = [core for share in shares for core in share]
    assert len(shares) == ranks
    assert len(set(pinned)) == len(pinned)
    assert set(pinned) <= set(host.physical_cores)
    assert len({len(share) for share in shares}) == 1
    assert all(any(set(share) <= set(node.cores) for node in host.nodes) for share in shares)
    if len(host.physical_cores) > ranks:
        assert set(host.physical_cores) - set(pinned)


@given(st.integers(1, 40), st.integers(1, 40))
def test_one_node_is_shared_out_as_the_launcher_does(cores: int, ranks: int) -> None:
    if ranks <= cores:
        assert [list(share) for share in pin_ranks(Host(tuple(range(cores))), ranks)] == share_cores(
            ranks, range(cores)
        )


def test_the_binding_is_written_as_vllm_reads_it() -> None:
    assert omp_bind(((0, 1, 2, 3), (4, 6))) == "0-3|4,6"
    with pytest.raises(KilocardError, match="0 ranks"):
        pin_ranks(Host((0,)), 0)
