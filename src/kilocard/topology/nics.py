"""Network cards, as the kernel shows them in /sys/class/net and /sys/class/infiniband."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.topology.sys_files import folders, read_number, read_text

MEGABIT, GIGABIT = 10**6, 10**9


@dataclass(frozen=True, slots=True)
class Nic:
    """A network card or what stands for one; whatever the kernel does not say is None."""

    name: str
    bits_per_s: int | None = None
    driver: str | None = None
    numa_node: int | None = None
    rdma: str | None = None
    """Its RDMA device, such as mlx5_0."""
    is_physical: bool = False
    is_up: bool | None = None

    def __post_init__(self) -> None:
        if self.bits_per_s is not None and self.bits_per_s <= 0:
            raise KilocardError(
                f"NIC {self.name}: a speed of {self.bits_per_s} bits/s; give a positive one or None"
            )


def read_nics(sys_root: Path) -> tuple[Nic, ...]:
    """The NICs that are physical or up, without the loopback; RDMA devices without a network too."""
    rdma = {device.name: device for device in folders(sys_root / "class/infiniband")}
    by_net = {net.name: name for name, device in rdma.items() for net in folders(device / "device/net")}
    nets = [
        _network(place, by_net.get(place.name))
        for place in folders(sys_root / "class/net")
        if place.name != "lo"
    ]
    alone = [_rdma_alone(device) for name, device in rdma.items() if name not in by_net.values()]
    return tuple(nic for nic in (*nets, *alone) if nic.is_physical or nic.is_up)


def _network(place: Path, rdma: str | None) -> Nic:
    state = read_text(place / "operstate")
    return Nic(
        place.name,
        (read_number(place / "speed") or 0) * MEGABIT or None,
        _driver(place),
        read_number(place / "device/numa_node"),
        rdma,
        (place / "device").exists(),
        None if state in (None, "unknown") else state == "up",
    )


def _rdma_alone(place: Path) -> Nic:
    port = next(iter(folders(place / "ports")), place)
    rate = re.match(r"([\d.]{1,8}) Gb/sec", read_text(port / "rate") or "", re.ASCII)
    state = read_text(port / "state")
    return Nic(
        place.name,
        _bits(rate[1]) if rate else None,
        _driver(place),
        read_number(place / "device/numa_node"),
        place.name,
        True,
        None if state is None else "ACTIVE" in state,
    )


def _bits(gigabits: str) -> int | None:
    try:
        return round(float(gigabits) * GIGABIT) or None
    except ValueError:
        return None


def _driver(place: Path) -> str | None:
    try:
        link = place / "device/driver"
        return link.resolve().name if link.exists() else None
    except OSError:
        return None
