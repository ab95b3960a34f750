"""HAProxy before two gateways: whose requests are whose, and what a gateway that goes takes along."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilocard.emulator import Emulated, emulated
from kilocard.load import replay
from kilocard.notebook import figures
from kilocard.notebook.gone import Gone, lose_a_gateway
from kilocard.notebook.tiers import Tiers, known_within_s, meanwhile, two_tiers, views
from kilocard.specs import case_from
from kilocard.specs.cluster import Balancer
from kilocard.workload import Arrivals, Fixed, Workload

pytestmark = pytest.mark.haproxy

CASE = case_from(
    {
        "model": "llama-3.1-8b",
        "card": "h100-sxm",
        "replicas": 2,
        "workload": {"requests": 1, "rate_per_s": 1, "prompt_tokens": 16, "output_tokens": 8},
    }
)
PATIENCE_S = 1.0


@pytest.fixture(scope="module")
def engines() -> Iterator[Emulated]:
    with emulated(CASE) as running:
        yield running


@pytest.fixture
def tiers(engines: Emulated) -> Iterator[Tiers]:
    pool = {"name": "chat", "cap": 9, "replicas": engines.urls}
    cluster = {"name": "t", "model": engines.model, "pools": [pool]}
    with two_tiers(cluster, check_every_s=0.2, connect_s=0.2) as running:
        yield running


def a_load(rate_per_s: float, requests: int = 40, output_tokens: int = 100) -> Workload:
    return Workload(
        requests, Fixed(16), Fixed(output_tokens), Arrivals(rate_per_s, process="constant"), seed=5
    )


def test_each_gateway_counts_its_own_and_owns_its_part(tiers: Tiers, engines: Emulated) -> None:
    load = a_load(200, requests=8, output_tokens=300)
    run, seen = meanwhile(
        lambda: replay(tiers.url, engines.model, workloads=load, warmup=0), lambda: views(tiers), 1.5
    )
    assert len(run.ok) == 8
    assert [sum(view.caps) for view in seen] == [9, 9]
    assert {view.caps for view in seen} == {(5, 4), (4, 5)}
    assert [sum(view.counted) for view in seen] == [view.running for view in seen]
    assert [sum(view.counted[number] for view in seen) for number in (0, 1)] == [4, 4]
    assert set(tiers.by_gateway(run).requests["gateway"]) == {"0", "1"}


def test_how_late_a_gateway_is_known_to_be_gone() -> None:
    default = Balancer()
    assert known_within_s(default, hangs=False) == 1.25
    assert known_within_s(default, hangs=True) == 1 + 2 + 0.25 + 2
    assert known_within_s(Balancer(fall=1, check_every_s=4), hangs=False) == 4


def the_rest_went_well(gone: Gone) -> None:
    assert gone.is_honest
    assert (gone.through_others["status"] == "ok").all() and len(gone.through_others)
    assert set(gone.failed["gateway"]) <= {"0"}


def test_a_killed_gateway_takes_what_it_was_answering_and_nothing_else(
    tiers: Tiers, engines: Emulated
) -> None:
    gone = lose_a_gateway(tiers, engines.model, a_load(12), 1.5)
    the_rest_went_well(gone)
    later = gone.run.requests[gone.run.requests["sent_s"] > gone.known_s]
    assert len(later) and set(later["gateway"]) == {"1"}
    assert len(gone.sent_after) == 0
    assert 1 <= len(gone.sent_before) <= gone.in_flight + 1
    assert set(gone.sent_before["status"]) == {"lost"}
    assert (gone.ends_s >= gone.run.requests["sent_s"].to_numpy(float)).all()


def test_a_hung_gateway_takes_new_ones_too_until_it_is_known(
    tiers: Tiers, engines: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = lose_a_gateway(tiers, engines.model, a_load(12), 1.5, signal.SIGSTOP, patience_s=PATIENCE_S)
    the_rest_went_well(gone)
    assert set(gone.failed["status"]) == {"timeout"} and len(gone.sent_before) >= 1
    assert tiers.states() == ["UP", "UP"], "it goes on as if nothing had been"
    shown: list[str] = []
    monkeypatch.setattr("kilocard.notebook.style.display", lambda it: shown.append(it.data))
    figures.tiers_figure(gone, title="It hangs", mark="gateway 0 hangs", cap=9)
    assert f"{len(gone.sent_before)} requests under way" in shown[0] and "It hangs" in shown[0]


def test_nothing_is_left_when_the_block_ends(engines: Emulated) -> None:
    cluster = {"name": "t", "model": engines.model, "pools": [{"name": "chat", "replicas": engines.urls}]}
    with two_tiers(cluster) as running:
        pids = [gateway.process.pid for gateway in running.gateways]
        folder = running.logs[0].parent
        running.signal(0, signal.SIGSTOP)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not folder.exists()
