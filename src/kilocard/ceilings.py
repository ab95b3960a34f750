"""What this very box can do at most: bytes read and matrix arithmetic a second, measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Measured upper bounds of a device, the best of several tries.

    `read_bytes_per_s`: a matrix-vector product over a matrix far larger than any cache.
    `matmul_flops_per_s`: a square bf16 matrix product, 2 n^3 operations.
    """

    device: str
    threads: int
    read_bytes_per_s: float
    matmul_flops_per_s: float

    @property
    def ridge_flops_per_byte(self) -> float:
        """The arithmetic intensity at which the limit passes from memory to arithmetic."""
        return self.matmul_flops_per_s / self.read_bytes_per_s


def measure_ceilings(threads: int = 1, tries: int = 5) -> Ceilings:
    """Measure this box: its first CUDA card if there is one, else `threads` of its cores."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with _threads(torch, threads), torch.inference_mode():
        return Ceilings(
            device=torch.cuda.get_device_name(0) if device == "cuda" else f"{threads} CPU core",
            threads=threads,
            read_bytes_per_s=_read_rate(torch, device, tries),
            matmul_flops_per_s=_matmul_rate(torch, device, tries),
        )


def _read_rate(torch: Any, device: str, tries: int) -> float:
    n = 8192 if device == "cpu" else 32768
    matrix, vector = torch.ones(n, n, device=device), torch.ones(n, device=device)
    return float(matrix.nbytes) / _best_seconds(torch, lambda: torch.mv(matrix, vector), tries)


def _matmul_rate(torch: Any, device: str, tries: int) -> float:
    n = 1536 if device == "cpu" else 8192
    matrix = torch.ones(n, n, device=device, dtype=torch.bfloat16)
    return 2 * n**3 / _best_seconds(torch, lambda: matrix @ matrix, tries)


def _best_seconds(torch: Any, work: Callable[[], Any], tries: int) -> float:
    work()
    return min(_seconds(torch, work) for _ in range(tries))


def _seconds(torch: Any, work: Callable[[], Any]) -> float:
    _finish(torch)
    start = time.perf_counter()
    work()
    _finish(torch)
    return time.perf_counter() - start


def _finish(torch: Any) -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@contextmanager
def _threads(torch: Any, count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
