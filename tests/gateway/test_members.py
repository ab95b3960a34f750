"""From file to members, and from one file to the next: parts add up, and nobody is lost who has something."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.gateway.lines import Lines
from kilocard.gateway.member import Member
from kilocard.gateway.placing import Placing
from kilocard.gateway.pool import Pool
from kilocard.gateway.registry import Registry
from kilocard.gateway.telemetry import Telemetry
from kilocard.gateway.warden import Warden, Watched
from kilocard.routing.health import Health, State
from kilocard.routing.policies import POLICIES, REFERENCE
from kilocard.routing.prefixes import keys_of
from kilocard.routing.replicas import Arrival, Replicas
from kilocard.specs.cluster import ClusterSpec

PORTS = st.lists(st.integers(1, 6), min_size=1, max_size=5, unique=True)
NO_KEYS = keys_of(b"")


def spec_of(ports: list[int], cap: int = 8, **pool: Any) -> ClusterSpec:
    replicas = [f"http://h:{port}" for port in ports]
    pools = [{"name": "p", "cap": cap, "replicas": replicas, **pool}]
    return ClusterSpec.model_validate({"name": "t", "model": "m", "pools": pools})


def member(name: str, cap: int = 0) -> Member:
    return Member(id=name, host="h", port=1, row=0, lines=Lines("h", 1, 1.0), cap=cap)


@given(PORTS, st.integers(1, 40), st.integers(0, 40), st.integers(1, 9))
def test_gateways_share_out_each_cap_and_the_line(
    ports: list[int], cap: int, places: int, gateways: int
) -> None:
    capped = {"queue": {"limit": places}, "gateways": 1}
    pools = [{"name": "p", "cap": cap, "replicas": [f"http://h:{port}" for port in ports]}]
    spec = ClusterSpec.model_validate({"name": "t", "model": "m", "pools": pools, "gateway": capped})
    stations = []
    for gateway in range(gateways):
        placing = Placing()
        Registry(placing, gateway, gateways).adopt(spec)
        stations += placing.stations
    assert sum(station.line.limit for station in stations) == places
    for its in zip(*(station.pool.members for station in stations), strict=True):
        assert sum(member.cap for member in its if member.is_owned) == cap
        assert all(member.is_owned == (member.cap > 0) for member in its)
    held = [sum(member.cap for member in station.pool.members) for station in stations]
    assert max(held) - min(held) <= 1


@given(st.lists(PORTS, min_size=1, max_size=6), st.data())
def test_whatever_file_follows_members_are_what_it_says_and_counts_stay(
    files: list[list[int]], data: st.DataObject
) -> None:
    placing = Placing()
    registry = Registry(placing, 0, 1)
    held: dict[Member, int] = {}
    for number, ports in enumerate(files):
        cap = data.draw(st.integers(0, 9))
        registry.adopt(spec_of(ports, cap))
        station = placing.stations[0]
        staying = [it for it in station.pool.members if not it.is_leaving]
        assert sorted(it.id for it in staying) == sorted(f"h:{port}" for port in ports)
        assert {it.cap for it in staying} == {cap}
        for one, count in held.items():
            assert station.pool.active(one) == count
        chosen = data.draw(st.sampled_from(staying))
        station.pool.sent(chosen, Arrival(1, 1, -1, 0), float(number))
        held[chosen] = held.get(chosen, 0) + 1
        if data.draw(st.booleans()):
            registry.tick(float(number))
            assert all(it in station.pool.members for it in held)
    for one, count in held.items():
        for _ in range(count):
            station.pool.ended(one, 1, 1.0, 50.0)
    registry.tick(0.0)
    assert sorted(it.id for it in station.pool.members) == sorted(f"h:{port}" for port in files[-1])
    assert not station.pool.replicas.active.any()


def test_a_pool_that_is_no_longer_named_goes_with_its_last_request() -> None:
    placing = Placing()
    registry = Registry(placing, 0, 1)
    registry.adopt(spec_of([1]))
    old = placing.stations[0]
    uncached = old.pool.sent(old.pool.members[0], Arrival(5, 1, -1, 0), 0.0)
    registry.adopt(spec_of([2], name="q"))
    registry.tick(0.0)
    assert [it.pool.name for it in placing.stations] == ["q", "p"]
    old.pool.ended(old.pool.members[0], uncached, 1.0, 1.0)
    registry.tick(1.0)
    assert [it.pool.name for it in placing.stations] == ["q"]


def test_what_ends_after_its_pool_has_gone_disturbs_nobody() -> None:
    placing = Placing()
    registry = Registry(placing, 0, 1)
    registry.adopt(spec_of([1]))
    old = placing.stations[0].pool
    registry.adopt(spec_of([2], name="q"))
    registry.tick(0.0)
    assert placing.of(old) is None
    placing.finished(old, 1.0)


def test_a_cap_under_the_number_of_gateways_leaves_some_without() -> None:
    shares = []
    for gateway in range(4):
        placing = Placing()
        Registry(placing, gateway, 4).adopt(spec_of([1, 2], cap=1))
        pool = placing.stations[0].pool
        well = {one: Watched(Health(State.UP, 0.0)) for one in pool.members}
        Warden(placing, Telemetry(), known=well).apply(0.0)
        shares.append(pool.replicas.share.tolist())
    assert [sum(column) for column in zip(*shares, strict=True)] == [1.0, 1.0]


@given(st.data())
def test_counts_return_to_zero_whatever_joins_leaves_and_ends(data: st.DataObject) -> None:
    pool = Pool("p", "m", "least-active", 1)
    under_way: list[tuple[Member, int]] = []
    for number in range(data.draw(st.integers(1, 40))):
        idle = [it for it in pool.members if pool.active(it) == 0]
        moves = ["add", "send"] + ["end", "begin"] * bool(under_way) + ["remove"] * bool(idle)
        move = data.draw(st.sampled_from(moves))
        if move == "add":
            pool.add(member(str(number), data.draw(st.integers(0, 3))))
        elif move == "remove":
            pool.remove(data.draw(st.sampled_from(idle)))
        elif move == "send":
            arrival = Arrival(data.draw(st.integers(1, 500)), 7, -1, 0)
            barred = data.draw(st.lists(st.sampled_from(pool.members))) if pool.members else []
            chosen = pool.choose(arrival, *NO_KEYS, barred)
            assert chosen not in barred or chosen is None
            if chosen is not None:
                under_way.append((chosen, pool.sent(chosen, arrival, float(number))))
        elif move == "begin":
            at = data.draw(st.integers(0, len(under_way) - 1))
            pool.began(*under_way[at], 0.1, (0, 0.0))
            under_way[at] = under_way[at][0], 0
        else:
            pool.ended(*under_way.pop(data.draw(st.integers(0, len(under_way) - 1))), 7.0, float(number))
        for it in pool.members:
            count = sum(1 for other, _ in under_way if other is it)
            assert pool.active(it) == count
            assert not it.cap or count <= it.cap
            assert pool.replicas.weight[it.row] == (0.0 if it.cap and count >= it.cap else 1.0)
    for one, uncached in under_way:
        pool.ended(one, uncached, 7.0, 50.0)
    table = pool.replicas
    assert not table.active.any() and not table.prompt_tokens.any() and not table.output_left.any()


def test_an_unknown_policy_is_told_with_those_there_are() -> None:
    with pytest.raises(KilocardError, match="least-active"):
        Pool("p", "m", "least-actve", 1)
    for policy in POLICIES:
        pool = Pool("p", "m", policy, 1)
        pool.add(member("a"))
        assert pool.choose(Arrival(1, 1, -1, 0), *NO_KEYS) is pool.members[0]


def beyond_its_columns(replicas: Replicas, arrival: Arrival, random: Any) -> int:
    return int(replicas.active[len(replicas.active) + arrival.prompt_tokens])


def test_where_a_policy_fails_the_reference_stands_in_and_it_is_told_once() -> None:
    told: list[str] = []

    async def ask() -> list[Member | None]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, about: told.append(f"{about['message']}: {about['exception']}"))
        pool = Pool("p", "m", beyond_its_columns, 1)
        for id in "abc":
            pool.add(member(id))
        busy = pool.members[:2]
        return [pool.choose(Arrival(1, 1, -1, 0), *NO_KEYS, but=busy) for _ in range(5)]

    chosen = asyncio.run(ask())
    assert [it.id for it in chosen if it] == ["c"] * 5
    assert len(told) == 1 and REFERENCE in told[0] and "index" in told[0]


def test_a_policy_that_no_compiler_takes_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def bad(replicas, arrival, random):\n    import os\n    return 0\n")
    placing = Placing()
    registry = Registry(placing, 0, 1)
    registry.adopt(spec_of([1, 2]))
    before = [(it.id, it.cap) for it in placing.stations[0].pool.members], placing.stations[0].line.limit
    spec = spec_of([3], cap=1)
    gateway = spec.gateway.model_copy(update={"policy": f"{tmp_path}/bad.py:bad"})
    with pytest.raises(KilocardError, match="cannot be compiled"):
        registry.adopt(spec.model_copy(update={"gateway": gateway}))
    now = [(it.id, it.cap) for it in placing.stations[0].pool.members], placing.stations[0].line.limit
    assert now == before
