"""More than this machine's memory is refused before it is taken."""

from __future__ import annotations

from collections import namedtuple

import psutil
import pytest

from kilocard.errors import KilocardError
from kilocard.fleet import simulate_case
from kilocard.fleet.traffic import draw_parts
from kilocard.specs import Demand, case_from

LENGTHS = {"prompt_tokens": 64, "output_tokens": 8}
Memory = namedtuple("Memory", "available")


@pytest.fixture
def a_gibibyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(2**30))


@pytest.mark.usefixtures("a_gibibyte")
@pytest.mark.parametrize(
    "asked",
    [
        {"rate_per_s": 100, "requests": 5_000_000},
        {"rate_per_s": 100, "requests": 500_000, "turns": 10},
        {"stages": [{"rate_per_s": 500, "duration_s": 10_000}]},
        {"stages": [{"concurrency": 5, "requests": 2_500_000}] * 2},
    ],
)
def test_too_many_requests(asked: dict[str, object]) -> None:
    with pytest.raises(
        KilocardError, match=r"5,000,000 requests take 2\.794 GiB of memory, and 1 GiB are free"
    ):
        draw_parts(Demand.model_validate({**LENGTHS, **asked}), 0)


@pytest.mark.usefixtures("a_gibibyte")
def test_too_many_slots() -> None:
    engine = {"max_num_seqs": 65_536, "max_num_batched_tokens": 65_536}
    case = {"model": "qwen3-8b", "card": "h100-sxm", "replicas": 100_000, "engine": engine}
    with pytest.raises(KilocardError, match=r"100,000 engines of max_num_seqs 65,536 take 390\.6 GiB"):
        simulate_case(case_from({**case, "workload": {**LENGTHS, "rate_per_s": 1, "requests": 2}}))
