"""Engines that die, hang and come back; drains, reloads, a gateway's end: what is under way is not lost."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from failing_engine import MODEL, Answer, FailingEngine, ask, before, failing_engines, in_flight, state_of
from gateway_at_work import eventually

from kilocard.errors import KilocardError
from kilocard.gateway.process import AtWork

SOON = {"probe": {"every_s": 0.2, "timeout_s": 0.3, "failures": 2, "successes": 1}}


@contextmanager
def two(**gateway: Any) -> Iterator[tuple[AtWork, FailingEngine, FailingEngine]]:
    timeouts = {"connect_s": 1, "first_byte_s": 60, "between_chunks_s": 60}
    patient = {"timeouts": timeouts, "policy": "least-active", **gateway}
    with failing_engines(2) as (one, other), before([one, other], **patient) as running:
        assert eventually(lambda: all(row["share"] > 0 for row in running.replicas()))
        yield running, one, other
        if running.process.poll() is None:
            assert eventually(lambda: in_flight(running) == 0)


@pytest.fixture(scope="module")
def scene() -> Iterator[tuple[AtWork, FailingEngine, FailingEngine]]:
    with two() as running:
        yield running


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def held_by_both(
    gateway: AtWork, clients: ThreadPoolExecutor, one: FailingEngine, other: FailingEngine
) -> list[Future[Answer]]:
    """Streams that go on when the engines' gates are opened."""
    for engine in (one, other):
        engine.gate.clear()
        engine.heard.clear()
    answers = [clients.submit(ask, gateway, holds=True) for _ in range(8)]
    assert eventually(lambda: in_flight(gateway) == len(one.heard) + len(other.heard) == 8)
    assert all(row["in_flight"] > 0 for row in gateway.replicas())
    return answers


def let_go(answers: list[Future[Answer]], *engines: FailingEngine) -> None:
    """Each of them comes to a good end."""
    for engine in engines:
        engine.gate.set()
    for answer in answers:
        assert answer.result().status == 200
        assert answer.result().last_event == b"data: [DONE]"


def cluster_of(gateway: AtWork) -> dict[str, Any]:
    """Its file."""
    told: dict[str, Any] = yaml.safe_load(gateway.path.read_text())
    return told


def test_a_dead_engine_is_left_out_and_comes_back() -> None:
    with two(health=SOON) as (gateway, one, other):
        comes_back(gateway, one, other)


def comes_back(gateway: AtWork, one: FailingEngine, other: FailingEngine) -> None:
    one.die()
    assert [ask(gateway).status for _ in range(10)] == [200] * 10
    assert eventually(lambda: state_of(gateway, one) == "down")
    other.heard.clear()
    assert [ask(gateway).status for _ in range(10)] == [200] * 10
    assert len(other.heard) == 10
    one.come()
    assert eventually(lambda: state_of(gateway, one) in {"recovering", "up"})
    assert serves(gateway, one, but=other)


def test_an_engine_that_streams_is_not_dead_though_it_answers_no_probe(clients: ThreadPoolExecutor) -> None:
    with two(health=SOON) as (gateway, one, other):
        stays(gateway, clients, one, other)


def stays(gateway: AtWork, clients: ThreadPoolExecutor, one: FailingEngine, other: FailingEngine) -> None:
    ends = threading.Event()

    def keep_asking() -> set[int]:
        seen = set()
        while not ends.is_set():
            seen.add(ask(gateway, max_tokens=2).status)
        return seen

    gateway.order("/drain", id=other.id)
    asking = clients.submit(keep_asking)
    one.hangs_on_probes = True
    before_it = hung_probes(gateway, one)
    assert eventually(lambda: hung_probes(gateway, one) >= before_it + 3)
    assert state_of(gateway, one) in {"up", "recovering"}
    ends.set()
    assert asking.result() == {200}
    assert eventually(lambda: state_of(gateway, one) == "down")
    one.hangs_on_probes = False
    gateway.order("/resume", id=other.id)
    assert eventually(lambda: state_of(gateway, one) in {"recovering", "up"})


def test_a_drained_engine_finishes_all_that_it_holds(
    scene: tuple[AtWork, FailingEngine, FailingEngine], clients: ThreadPoolExecutor
) -> None:
    gateway, one, other = scene
    answers = held_by_both(gateway, clients, one, other)
    assert gateway.order("/drain", id=one.id)["in_flight"] > 0
    one.heard.clear()
    assert [ask(gateway).status for _ in range(10)] == [200] * 10
    assert not one.heard
    let_go(answers, one, other)
    gateway.order("/resume", id=one.id)
    assert serves(gateway, one, but=other)


def test_a_removed_engine_goes_when_its_last_stream_has_ended_and_may_be_added_again(
    clients: ThreadPoolExecutor,
) -> None:
    with two() as (gateway, one, other):
        goes_and_comes(gateway, clients, one, other)


def goes_and_comes(
    gateway: AtWork, clients: ThreadPoolExecutor, one: FailingEngine, other: FailingEngine
) -> None:
    answers = held_by_both(gateway, clients, one, other)
    gateway.order("/remove", id=one.id)
    assert one.id in {row["id"] for row in gateway.replicas()}
    with pytest.raises(KilocardError, match="no replica is called"):
        gateway.order("/remove", id=one.id)
    let_go(answers, one, other)
    assert eventually(lambda: one.id not in {row["id"] for row in gateway.replicas()})
    gateway.order("/add", pool="p", url=f"http://{one.id}")
    with pytest.raises(KilocardError, match="there already"):
        gateway.order("/add", pool="p", url=f"http://{one.id}")
    assert serves(gateway, one, but=other)


@pytest.mark.parametrize("by", ["signal", "order"])
def test_a_reload_under_load_loses_nothing(by: str, clients: ThreadPoolExecutor) -> None:
    with two() as (gateway, one, other):
        answers = held_by_both(gateway, clients, one, other)
        cluster = cluster_of(gateway)
        without = {**cluster, "pools": [{**cluster["pools"][0], "replicas": [f"http://{other.id}"]}]}
        have_read(gateway, without, by)
        assert eventually(lambda: state_of(gateway, one) == "draining")
        one.heard.clear()
        assert [ask(gateway).status for _ in range(10)] == [200] * 10
        assert not one.heard
        let_go(answers, one, other)
        assert eventually(lambda: [row["id"] for row in gateway.replicas()] == [other.id])
        have_read(gateway, cluster, by)
        assert eventually(lambda: len(gateway.replicas()) == 2)
        assert serves(gateway, one, but=other)


def test_streams_pass_through_reload_after_reload(clients: ThreadPoolExecutor) -> None:
    with two() as (gateway, one, other):
        cluster = cluster_of(gateway)
        asked = [clients.submit(ask, gateway, max_tokens=50) for _ in range(200)]
        for turn in range(10):
            kept = [it for it in (one, other) if turn % 2 or it is one]
            replicas = [f"http://{it.id}" for it in kept]
            gateway.reload({**cluster, "pools": [{**cluster["pools"][0], "replicas": replicas}]})
        let_go(asked)


@pytest.mark.parametrize("by", ["signal", "order"])
@pytest.mark.parametrize(
    "broken",
    ["pools: [", "name: t\nmodel: m\n", "", "policy", "keys"],
)
def test_a_file_that_cannot_be_used_changes_nothing(
    scene: tuple[AtWork, FailingEngine, FailingEngine], broken: str, by: str
) -> None:
    gateway = scene[0]
    good, listed = gateway.path.read_text(), [row["id"] for row in gateway.replicas()]
    cluster = cluster_of(gateway)
    cluster["pools"][0]["replicas"] = ["http://127.0.0.1:9"]
    more = {"policy": {"policy": "no-such"}, "keys": {"keys": {"file": "no-such-file"}}}
    if broken in more:
        broken = yaml.safe_dump({**cluster, "gateway": {**cluster["gateway"], **more[broken]}})
    log = gateway.path.parent / "access.log"
    told = log.read_text().count('"reload":"failed"')
    gateway.path.write_text(broken)
    if by == "signal":
        gateway.process.send_signal(signal.SIGHUP)
    else:
        with pytest.raises(KilocardError):
            gateway.order("/reload")
    assert eventually(lambda: log.read_text().count('"reload":"failed"') == told + 1)
    gateway.path.write_text(good)
    assert [row["id"] for row in gateway.replicas()] == listed
    assert ask(gateway).status == 200


def test_a_gateway_that_is_told_to_end_finishes_what_it_has(clients: ThreadPoolExecutor) -> None:
    with two(drain_s=60) as (gateway, one, other):
        answers = held_by_both(gateway, clients, one, other)
        gateway.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: refuses(gateway))
        let_go(answers, one, other)
        assert gateway.process.wait(30) == 0


def test_what_does_not_end_in_time_is_told_so(clients: ThreadPoolExecutor) -> None:
    with two(drain_s=0.2) as (gateway, one, other):
        answers = held_by_both(gateway, clients, one, other)
        gateway.process.send_signal(signal.SIGTERM)
        for answer in answers:
            assert b"the gateway is ending" in answer.result().last_event
            assert b"[DONE]" not in answer.result().content
        assert gateway.process.wait(30) == 0


def serves(gateway: AtWork, engine: FailingEngine, but: FailingEngine) -> bool:
    """Whether it answers once it is up and the other may not."""
    engine.heard.clear()
    assert eventually(lambda: state_of(gateway, engine) in {"recovering", "up"})
    gateway.order("/drain", id=but.id)
    answer = ask(gateway)
    gateway.order("/resume", id=but.id)
    return answer.status == 200 and len(engine.heard) == 1


def refuses(gateway: AtWork) -> bool:
    """Whether nobody new comes in."""
    try:
        ask(gateway)
    except OSError:
        return True
    return False


def hung_probes(gateway: AtWork, engine: FailingEngine) -> int:
    """That this engine left without an answer."""
    from urllib.request import urlopen

    with urlopen(f"{gateway.about['metrics']}/metrics", timeout=10) as page:
        rows = page.read().decode().splitlines()
    mine = [row for row in rows if row.startswith("kilocard_gateway_probes_total") and engine.id in row]
    return sum(int(float(row.split()[-1])) for row in mine if 'result="hang"' in row)


def have_read(gateway: AtWork, cluster: dict[str, Any], by: str) -> None:
    """Another cluster file, and word of it."""
    gateway.path.write_text(yaml.safe_dump(cluster))
    if by == "signal":
        gateway.process.send_signal(signal.SIGHUP)
    else:
        gateway.order("/reload")
    assert cluster["model"] == MODEL
