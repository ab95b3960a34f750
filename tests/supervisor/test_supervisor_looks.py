"""A supervisor at odds with the world: what hangs, dies, finds no port or no disk, and what is ordered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from played_cluster import FILE, Cluster

from kilocard.cli.fleet_view import fleet_rows
from kilocard.errors import KilocardError
from kilocard.lifecycle import Phase
from kilocard.supervisor import front, state
from kilocard.supervisor.state import read_state


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    its = Cluster(tmp_path, monkeypatch)
    its.look_until_ready()
    return its


def test_one_that_gives_no_sign_is_ended_and_started_anew(cluster: Cluster) -> None:
    cluster.world.silent.add("chat-0")
    cluster.look_until(lambda: cluster.phases["chat-0"] is not Phase.SERVING)
    assert cluster.held["chat-0"].fault == "it gave no sign of life for a minute"
    cluster.world.silent.clear()
    cluster.look_until_ready()
    assert cluster.world.started == {"chat-0": 2, "chat-1": 1, "chat-2": 1, "chat-3": 1, "gateway-0": 1}


def test_a_gateway_that_gives_no_sign_is_started_anew(cluster: Cluster) -> None:
    cluster.world.silent.add("gateway-0")
    cluster.look_until(lambda: cluster.world.started["gateway-0"] == 2)


def test_a_supervisor_that_stood_still_ends_nobody(cluster: Cluster) -> None:
    before = dict(cluster.world.started)
    for _ in range(10):
        cluster.look(every_s=10_000.0)
    assert cluster.world.started == before and cluster.serving == 4


def test_one_that_hears_no_sigterm_is_killed(cluster: Cluster) -> None:
    pid = cluster.world.kept["chat-0"]
    cluster.world.silent.add("chat-0")
    cluster.world.deaf.add("chat-0")
    cluster.look_until(lambda: cluster.phases["chat-0"] is Phase.STOPPING)
    cluster.world.silent.clear()
    cluster.look_until(lambda: pid in cluster.world.killed)
    cluster.look_until_ready()


def dies_with(cluster: Cluster, name: str, words: str) -> None:
    cluster.home.log_of(name).write_text(f"line\n{words}\n")
    cluster.world.die(name)


def test_what_dies_again_and_again_is_given_up_and_says_why(cluster: Cluster) -> None:
    starts: list[float] = []
    for number in range(1, 4):
        dies_with(cluster, "chat-1", '{"error": "no such card"}')
        died_s = cluster.now_s
        cluster.look_until(
            lambda n=number: cluster.world.started["chat-1"] > n or cluster.phases["chat-1"] is Phase.GIVEN_UP
        )
        starts.append(cluster.now_s - died_s)
    assert 1 <= starts[0] < 1.6 and 2 <= starts[1] < 2.6
    cluster.look(2000)
    assert cluster.world.started["chat-1"] == 3 and cluster.serving == 3
    row = next(it for it in fleet_rows(cluster.supervisor.state, {}) if it["slot"] == "chat-1")
    assert (row["phase"], row["deaths"], row["fault"]) == ("given up", 3, "no such card")
    assert any("given up" in line and "no such card" in line for line in cluster.said)
    cluster.supervisor.roll("chat")
    cluster.look_until_ready()
    assert cluster.held["chat-1"].fault == ""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KilocardError("port 8001 is taken: end it"), "port 8001 is taken: end it"),
        (ValueError("embedded null byte"), "ValueError: embedded null byte"),
    ],
)
def test_what_cannot_be_started_is_given_up_and_the_others_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    cluster = Cluster(tmp_path, monkeypatch)
    cluster.world.unwilling["chat-2"] = error
    cluster.look_until(lambda: cluster.phases.get("chat-2") is Phase.GIVEN_UP)
    assert cluster.serving == 3 and cluster.held["chat-2"].fault == told
    assert cluster.world.started["chat-2"] == 3


class Disk:
    """Full when it is told to be."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_full, self._write = False, front.write_whole
        for module in (front, state):
            patch.setattr(module, "write_whole", self._put)

    def _put(self, path: Path, text: str) -> None:
        if self.is_full:
            raise KilocardError(f"cannot write {path}: No space left on device")
        self._write(path, text)


def test_a_full_disk_stops_no_engine_that_gateways_still_send_to(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, before = Disk(monkeypatch), dict(cluster.world.kept)
    disk.is_full = True
    cluster.supervisor.roll()
    cluster.look(100, every_s=1.0)  # far longer than a drain may take
    assert Phase.DRAINING in cluster.phases.values() and cluster.world.kept == before
    assert sum("No space left" in line for line in cluster.said) == 2, "each thing that fails is told once"
    disk.is_full = False
    cluster.look_until_ready()
    cluster.look_until(lambda: cluster.supervisor.is_ready and min(_ages(cluster, before)) > 0)
    disk.is_full = True
    cluster.supervisor.end()
    cluster.look_until(lambda: cluster.supervisor.is_over)
    assert not cluster.world.ports


def test_a_restart_that_fails_is_not_tried_on_all(cluster: Cluster) -> None:
    for name in cluster.phases:
        cluster.world.unwilling[name] = KilocardError("weights are damaged")
    cluster.supervisor.roll()
    cluster.look(2000)
    assert cluster.serving == 3 and cluster.phases["chat-0"] is Phase.GIVEN_UP
    cluster.world.unwilling.clear()
    cluster.supervisor.roll()
    cluster.look_until_ready()
    assert cluster.serving == 4


def test_no_other_leaves_before_the_gateways_send_to_the_one_that_is_back(cluster: Cluster) -> None:
    before = dict(cluster.world.kept)
    cluster.world.unknown.add("chat-0")
    cluster.supervisor.roll()
    cluster.look_until(lambda: cluster.world.kept["chat-0"] != before["chat-0"])
    cluster.look(5)
    assert cluster.phases["chat-0"] is Phase.SERVING and not cluster.supervisor.is_ready
    assert cluster.world.kept["chat-1"] == before["chat-1"]
    cluster.world.unknown.clear()
    cluster.look_until_ready()
    assert cluster.world.kept["chat-3"] != before["chat-3"]


def test_one_that_gateways_never_find_holds_nobody_back_for_long(cluster: Cluster) -> None:
    before = dict(cluster.world.kept)
    cluster.world.unknown.add("chat-0")
    cluster.supervisor.roll()
    cluster.look_until(lambda: cluster.world.kept["chat-3"] != before["chat-3"])


def test_what_is_written_is_what_is(cluster: Cluster) -> None:
    cluster.supervisor.roll()
    cluster.look(3)
    kept = read_state(cluster.home.state)
    assert kept and {name: its.slot for name, its in kept.held.items()} == {
        name: its.slot for name, its in cluster.held.items()
    }


def _ages(cluster: Cluster, before: dict[str, int]) -> list[int]:
    return [cluster.world.kept[name] - pid for name, pid in before.items() if name != "gateway-0"]


def test_an_end_in_the_middle_of_a_start_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for looks in range(6):
        (tmp_path / str(looks)).mkdir()
        cluster = Cluster(tmp_path / str(looks), monkeypatch)
        cluster.world.silent |= {"chat-0", "chat-1"}
        cluster.look(looks)
        cluster.supervisor.end()
        cluster.supervisor.end()
        cluster.look_until(lambda its=cluster: its.supervisor.is_over)
        assert not cluster.world.ports


def test_a_pool_that_grows_moves_the_others_and_no_two_meet_at_a_port(cluster: Cluster) -> None:
    """Ports follow one another through the file: those of later pools all move."""
    night = {"name": "night", "role": "batch", "card": "h100-sxm", "replicas": 3}
    cluster.change(pools=[*FILE["pools"], night])
    cluster.look_until_ready()
    for replicas in (6, 2, 5):
        cluster.change(pools=[{**FILE["pools"][0], "replicas": replicas}, night])
        ports = list(range(8001, 8001 + replicas + 3))
        cluster.look_until(lambda wanted=ports: engine_ports(cluster) == wanted)
        cluster.look_until_ready()
        assert engine_ports(cluster) == ports
    assert all(held.slot.deaths_s == () for held in cluster.held.values())


def engine_ports(cluster: Cluster) -> list[int]:
    return sorted(held.port for name, held in cluster.held.items() if name != "gateway-0")


Step = st.tuples(st.sampled_from(["v1", "v2", "v3", "roll", "die"]), st.integers(0, 30))


@given(st.lists(Step, min_size=1, max_size=6))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_however_often_a_file_changes_the_last_one_is_run_and_a_batch_is_out_at_the_most(
    tmp_path: Path, steps: list[tuple[str, int]]
) -> None:
    crashes = {"back_off_s": 0.25, "most_back_off_s": 1, "most": 50}
    with pytest.MonkeyPatch.context() as patch:
        cluster = Cluster(tmp_path, patch, lifecycle={**FILE["lifecycle"], "crashes": crashes})
        cluster.look_until_ready()
        last, dead = "v1", 0
        for what, looks in steps:
            if what == "roll":
                cluster.supervisor.roll()
            elif what == "die":
                cluster.world.die("chat-3")
                dead = 1
            else:
                cluster.change(version=what)
                last = what
            for _ in range(looks):
                cluster.look()
                assert cluster.serving >= 3 - dead
        cluster.look_until_ready()
        recipes = cluster.supervisor.state.recipes
        assert {
            recipes[its.slot.runs].version for name, its in cluster.held.items() if name[:4] == "chat"
        } == {last}
        assert len(cluster.world.ports) == 5


def test_a_state_that_somebody_spoils_is_written_anew(cluster: Cluster) -> None:
    for spoil in (lambda: cluster.home.state.write_text('{"form": 2, "boo'), cluster.home.state.unlink):
        spoil()
        cluster.look()
        kept = read_state(cluster.home.state)
        assert kept and set(kept.held) == set(cluster.held)


def test_a_state_tells_the_same_after_it_was_written(cluster: Cluster) -> None:
    dies_with(cluster, "chat-0", "ValueError: x")
    cluster.look()
    kept: Any = read_state(cluster.home.state)
    assert kept.held["chat-0"].fault and kept.held["chat-0"].slot == cluster.held["chat-0"].slot
