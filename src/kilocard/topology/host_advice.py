"""What cores, NUMA nodes and NICs mean for the ranks of an engine."""

from __future__ import annotations

from collections.abc import Iterable

from kilocard.errors import KilocardError
from kilocard.topology.cores import format_cores
from kilocard.topology.finding import Finding
from kilocard.topology.host import Host
from kilocard.topology.nics import GIGABIT, Nic
from kilocard.topology.pinning import omp_bind, pin_ranks

GIB = 2**30
SLOW_GBIT = 25
"""Under this, a collective between machines is slow beside any link inside a box: an estimate to warn by."""


def host_findings(host: Host, ranks: int, on_cpu: bool) -> list[Finding]:
    """Cores and nodes, and on a CPU box the pinning of its ranks."""
    pinned = _pinned(host, ranks) if on_cpu else []
    return [_nodes(host), *_quota(host), *_siblings(host, ranks, on_cpu), *_too_few(host, ranks), *pinned]


def network_findings(host: Host) -> list[Finding]:
    """What the NICs let machines do together."""
    physical = [nic for nic in host.nics if nic.is_physical]
    if not physical:
        return []
    named = "; ".join(map(described, physical))
    measure = "measure the wire: `kilocard doctor listen` there, `kilocard doctor network HOST:PORT` here"
    if any(nic.rdma for nic in physical):
        means = "RDMA: tensors go past the kernels; a TP group stays in a box, PP and EP may leave it"
        return [Finding("network", named, means, measure)]
    slow = [nic for nic in physical if nic.bits_per_s and nic.bits_per_s < SLOW_GBIT * GIGABIT]
    means = "no RDMA: collectives between machines go over TCP, for which replicas are made and TP is not"
    if slow:
        means += (
            f"; {', '.join(nic.name for nic in slow)} under {SLOW_GBIT} Gb/s carries requests, no tensors"
        )
    return [Finding("network", named, means, measure)]


def described(nic: Nic) -> str:
    """A NIC in a few words."""
    speed = "speed not told" if nic.bits_per_s is None else f"{nic.bits_per_s / GIGABIT:g} Gb/s"
    words = [speed, nic.driver or "", f"RDMA {nic.rdma}" if nic.rdma else "no RDMA"]
    node = "" if nic.numa_node is None else f"NUMA node {nic.numa_node}"
    state = "down" if nic.is_up is False else ""
    return f"{nic.name}: {', '.join(filter(None, [*words, node, state]))}"


def _nodes(host: Host) -> Finding:
    shares = host.cores_by_node
    threads = f", {len(host.physical_cores)} physical" if host.siblings else ""
    if len(host.nodes) < 2:
        known = "1 NUMA node" if host.nodes else "no NUMA node shown"
        return Finding(
            "cores",
            f"{len(host.cores)} usable ({format_cores(host.cores)}{threads}), {known}",
            "all memory is equally near: nothing to pin across",
        )
    named = "; ".join(
        f"node {number}: {format_cores(cores)}{_memory(host, number)}" for number, cores in shares.items()
    )
    unused = len(host.nodes) - len(shares)
    beyond = f"; {unused} more without a usable core" if unused else ""
    farthest = max((far for node in host.nodes for far in node.distances or ()), default=None)
    cost = f" (distance {farthest}, 10 is near)" if farthest else ""
    return Finding(
        "cores",
        f"{len(host.cores)} usable{threads} on {len(shares)} of {len(host.nodes)} nodes: {named}{beyond}",
        f"memory of another node is farther{cost}: a rank belongs with its memory on one node",
        "pin each rank to one node",
    )


def _memory(host: Host, number: int) -> str:
    size = next((node.memory_bytes for node in host.nodes if node.number == number), None)
    return f" with {size / GIB:.0f} GiB" if size else ""


def _quota(host: Host) -> Iterable[Finding]:
    if host.quota_cores is not None and host.quota_cores < len(host.cores):
        yield Finding(
            "CPU quota",
            f"the control group grants the time of {host.quota_cores:g} cores, {len(host.cores)} are shown",
            "with a thread a core the time is used up early, and steps stall until the next period",
            f"start {max(int(host.quota_cores), 1)} threads (OMP_NUM_THREADS), or lift the limit",
        )


def _siblings(host: Host, ranks: int, on_cpu: bool) -> Iterable[Finding]:
    if not (host.siblings and on_cpu):
        return
    shared = f"{len(host.siblings)} physical cores show several threads ({format_cores(host.siblings[0])}, …)"
    if ranks > len(host.physical_cores):
        means = (
            f"{ranks} ranks on {len(host.physical_cores)} physical cores: two ranks share one, and its units"
        )
        yield Finding("SMT", shared, means, "use no more ranks than physical cores")
    else:
        means = "two busy threads of one core share its arithmetic units and caches"
        yield Finding("SMT", shared, means, "pin ranks to one thread of each core, as vLLM's auto does")


def _too_few(host: Host, ranks: int) -> Iterable[Finding]:
    count = len(host.physical_cores)
    if count < ranks + 1:
        yield Finding(
            "cores for ranks",
            f"{count} for {ranks} ranks and whoever feeds them",
            "each rank keeps a core busy, so does the front end: they wait for each other, times spread",
            f"use {max(count - 1, 1)} rank{'s' if count > 2 else ''} here, or {ranks + 1} cores",
        )


def _pinned(host: Host, ranks: int) -> Iterable[Finding]:
    try:
        shares = pin_ranks(host, ranks)
    except KilocardError:
        return
    yield Finding(
        "pinning",
        f"{ranks} ranks: "
        + "; ".join(f"rank {rank} on {format_cores(mine)}" for rank, mine in enumerate(shares)),
        "each rank's threads stay on cores of its own, on one node; vLLM's auto leaves the choice to vLLM",
        f"VLLM_CPU_OMP_THREADS_BIND='{omp_bind(shares)}'",
    )
