"""One rank, a program of its own: `measure` starts it and reads the line of JSON that it writes.

Its one argument is a JSON object (`Orders`). Times are of the monotonic clock, which all processes of a box
share.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from kilocard.collectives.work import ELEMENT_BYTES, Operation, Work, a_round

HOST = "127.0.0.1"
LOOPBACK = "lo"
COPIES = 5
WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Orders:
    """The rank, where the ranks meet, the memory that they share for copying, and the work of all."""

    rank: int
    port: int
    listen_fd: int
    memory_fd: int
    limit_s: float
    work: Work


@dataclass(frozen=True, slots=True)
class Stamps:
    """When each repetition of each size began and ended here; how long each copy took; torch's version."""

    began_s: dict[int, list[float]]
    ended_s: dict[int, list[float]]
    copies_s: list[float]
    torch: str


class Rank:
    """A rank that has met the others."""

    def __init__(self, orders: Orders) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = LOOPBACK
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        self.torch, self.dist = torch, dist
        self.rank, self.work, self.memory_fd = orders.rank, orders.work, orders.memory_fd
        limit = timedelta(seconds=orders.limit_s)
        store = dist.TCPStore(
            HOST,
            orders.port,
            self.work.ranks,
            is_master=self.rank == 0,
            timeout=limit,
            master_listen_fd=orders.listen_fd if self.rank == 0 else None,
        )
        dist.init_process_group(
            "gloo", store=store, rank=self.rank, world_size=self.work.ranks, timeout=limit
        )

    def measured(self) -> Stamps:
        """All rounds, then the copies."""
        work = self.work
        tensors = {size: self.torch.full((size // ELEMENT_BYTES,), 1.0) for size in work.sizes_bytes}
        calls = {size: self._call(tensor) for size, tensor in tensors.items()}
        self._check()
        began: dict[int, list[float]] = {size: [] for size in calls}
        ended: dict[int, list[float]] = {size: [] for size in calls}
        for size, call in calls.items():
            tensors[size].zero_()
            self._repeat(call, WARM_UP)
        start_s, rounds = time.monotonic(), 0
        while rounds < work.fewest_rounds or self._go_on(time.monotonic() - start_s < work.budget_s):
            for size, call in calls.items():
                stamps = self._repeat(call, a_round(size))
                began[size] += [first for first, _ in stamps]
                ended[size] += [last for _, last in stamps]
            rounds += 1
        return Stamps(began, ended, self._copies(), str(self.torch.__version__))

    def _repeat(self, call: Callable[[], object], times: int) -> list[tuple[float, float]]:
        stamps = []
        for _ in range(times):
            self.dist.barrier()
            began_s = time.perf_counter()
            call()
            stamps.append((began_s, time.perf_counter()))
        return stamps

    def _call(self, tensor: Any) -> Callable[[], object]:
        if self.work.operation == Operation.ALLREDUCE:
            return lambda: self.dist.all_reduce(tensor)
        if self.work.operation == Operation.ALL_TO_ALL:
            dealt = self.torch.full_like(tensor, 0.0)
            return lambda: self.dist.all_to_all_single(dealt, tensor)
        if self.rank > 1:
            return lambda: None
        return (lambda: self.dist.recv(tensor, 0)) if self.rank else (lambda: self.dist.send(tensor, 1))

    def _check(self) -> None:
        """The ranks do add up."""
        one = self.torch.full((16,), float(self.rank + 1))
        self.dist.all_reduce(one)
        expected = self.work.ranks * (self.work.ranks + 1) / 2
        if not bool((one == expected).all()):
            raise SystemExit(f"an allreduce of {self.work.ranks} ranks summed to {one[0]}, not {expected}")

    def _go_on(self, mine: bool) -> bool:
        """What rank 0 says: all stop after the same round."""
        flag = self.torch.full((1,), float(mine))
        self.dist.broadcast(flag, 0)
        return bool(flag[0])

    def _copies(self) -> list[float]:
        """Each rank fills its part of the shared memory, then all at once copy the next one's part."""
        size = self.work.copy_bytes
        shared = np.frombuffer(mmap.mmap(self.memory_fd, size * self.work.ranks), dtype=np.uint8)
        parts = shared.reshape(self.work.ranks, size)
        parts[self.rank] = self.rank + 1
        into = np.zeros(size, dtype=np.uint8) + 1
        other = parts[(self.rank + 1) % self.work.ranks]
        stamps = self._repeat(lambda: np.copyto(into, other), COPIES + 1)
        return [ended_s - began_s for began_s, ended_s in stamps[1:]]


def orders_from(text: str) -> Orders:
    """The argument, read."""
    content = json.loads(text)
    work = content.pop("work")
    return Orders(**content, work=Work(**{**work, "sizes_bytes": tuple(work["sizes_bytes"])}))


def main() -> None:
    """Meet, measure, write, part."""
    rank = Rank(orders_from(sys.argv[1]))
    print(json.dumps(asdict(rank.measured())), flush=True)
    rank.dist.barrier()
    rank.dist.destroy_process_group()


if __name__ == "__main__":
    main()
