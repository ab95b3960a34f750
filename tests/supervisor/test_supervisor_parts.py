"""The parts of a supervisor: recipes, states, sums, samples, what each version served."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.launch.keep import Kept
from kilocard.lifecycle import Change, Phase, Stage, Verdict
from kilocard.specs.cluster import ClusterSpec, ModelWeights, Sample, cluster_from
from kilocard.supervisor import trial
from kilocard.supervisor.checksums import Verifier
from kilocard.supervisor.effective import effective, version_of
from kilocard.supervisor.home import Home
from kilocard.supervisor.recipe import recipe_of
from kilocard.supervisor.roster import follow, roster_of, seats
from kilocard.supervisor.samples import is_good
from kilocard.supervisor.state import State, read_state, write_state
from kilocard.supervisor.traffic import log_end, served_since

FILE: dict[str, Any] = {
    "name": "test",
    "model": "smollm2-135m",
    "version": "v1",
    "engine": {"max_num_seqs": 8},
    "pools": [{"name": "chat", "replicas": 2}],
}


def a_spec(**changes: Any) -> ClusterSpec:
    return cluster_from({**FILE, **changes})


def digest_of(spec: ClusterSpec) -> str:
    return recipe_of(spec, spec.pools[0], is_emulated=True).digest


def read(spec: ClusterSpec, state: State, now_s: float) -> None:
    follow(roster_of(spec, is_emulated=True), state, now_s)


def a_state(spec: ClusterSpec) -> State:
    state = State("boot", "file")
    read(spec, state, 0.0)
    return state


def serving(state: State) -> None:
    for held in state.held.values():
        held.slot = replace(held.slot, runs=held.slot.wants, phase=Phase.SERVING)


def test_equal_files_make_equal_recipes_and_what_an_engine_does_not_feel_changes_none() -> None:
    assert digest_of(a_spec()) == digest_of(a_spec(gateway={"port": 9000}, alerts={"for_s": 1}))
    for changes in (
        {"version": "v2"},
        {"engine": {"max_num_seqs": 9}},
        {"weights": {"path": "/models/x"}},
        {"engine": {"max_num_seqs": 8, "environment": {"A": "b"}}},
    ):
        assert digest_of(a_spec(**changes)) != digest_of(a_spec())


def test_seats_are_engines_then_gateways_with_ports_of_their_own() -> None:
    spec = a_spec(pools=[{"name": "a", "replicas": 2}, {"name": "b", "role": "batch", "replicas": 1}])
    told = [(seat.name, seat.port) for seat in seats(spec)]
    assert told == [("a-0", 8001), ("a-1", 8002), ("b-0", 8003), ("gateway-0", 8080)]


def test_a_file_with_fewer_replicas_empties_the_last_and_one_with_more_adds() -> None:
    state = a_state(a_spec())
    serving(state)
    read(a_spec(pools=[{"name": "chat", "replicas": 1}]), state, 1.0)
    assert [held.slot.wants != "" for held in state.of_pool("chat")] == [True, False]
    read(a_spec(pools=[{"name": "chat", "replicas": 3}]), state, 2.0)
    assert [held.slot.wants != "" for held in state.of_pool("chat")] == [True, True, True]


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    state = a_state(a_spec())
    held = state.held["chat-0"]
    held.kept, held.slot = Kept(1, "2", 3), replace(held.slot, deaths_s=(1.0, 2.0))
    state.changes["chat"] = Change("a", "b", Stage.TRYING, 3.0, 4.0, ("c",), "why")
    write_state(tmp_path / "state.json", state)
    assert read_state(tmp_path / "state.json") == state
    assert read_state(tmp_path / "none.json") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"form": 7}', '{"form": 2, "boot": 1}'])
def test_a_state_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(KilocardError, match="cannot be read"):
        read_state(tmp_path / "state.json")


def test_gateways_are_told_of_those_that_serve(tmp_path: Path) -> None:
    spec = a_spec()
    state = a_state(spec)
    nobody = cluster_from(yaml.safe_load(effective(spec, state, Home(tmp_path))))
    assert [(it.id, it.weight) for it in nobody.pools[0].replicas] == [("chat-0", 0.0)]
    serving(state)
    state.held["chat-0"].slot = state.held["chat-0"].slot.now_in(Phase.DRAINING, 1.0)
    one = cluster_from(yaml.safe_load(effective(spec, state, Home(tmp_path))))
    assert [(it.id, it.url, it.version) for it in one.pools[0].replicas] == [
        ("chat-1", "http://127.0.0.1:8002", "v1")
    ]
    assert one.gateway.access_log.path == str(tmp_path / "access.log")


def test_a_canary_has_a_version_of_its_own_and_its_share(tmp_path: Path) -> None:
    state = a_state(a_spec())
    serving(state)
    spec = a_spec(engine={"max_num_seqs": 4})
    read(spec, state, 1.0)
    candidate = state.changes["chat"].candidate
    state.held["chat-0"].slot = replace(state.held["chat-0"].slot, wants=candidate, runs=candidate)
    told = cluster_from(yaml.safe_load(effective(spec, state, Home(tmp_path))))
    assert [it.version for it in told.pools[0].replicas] == [f"v1+{candidate[:6]}", "v1"]
    assert told.gateway.canary and told.gateway.canary.version == f"v1+{candidate[:6]}"


def a_folder_of_weights(folder: Path) -> ModelWeights:
    (folder / "a.safetensors").write_bytes(b"weights")
    sums = f"{hashlib.sha256(b'weights').hexdigest()}  a.safetensors\n"
    (folder / "SHA256SUMS").write_text(sums)
    return ModelWeights(
        path=str(folder), checksums="SHA256SUMS", sha256=hashlib.sha256(sums.encode()).hexdigest()
    )


def test_whole_weights_are_taken_and_others_are_named(tmp_path: Path) -> None:
    weights = a_folder_of_weights(tmp_path)
    Verifier().verify("m", weights)
    (tmp_path / "a.safetensors").write_bytes(b"weight!")
    with pytest.raises(KilocardError, match=r"a\.safetensors is damaged or another"):
        Verifier().verify("m", weights)
    (tmp_path / "a.safetensors").unlink()
    with pytest.raises(KilocardError, match=r"a\.safetensors cannot be read"):
        Verifier().verify("m", weights)
    (tmp_path / "SHA256SUMS").write_text("0" * 64 + "  a.safetensors\n")
    with pytest.raises(KilocardError, match="other weights than the file means"):
        Verifier().verify("m", weights)


@pytest.mark.parametrize("line", ["x", "0" * 64 + "  ../a", "0" * 64 + "  /etc/passwd", ""])
def test_sums_that_are_none_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "SHA256SUMS").write_text(line + "\n")
    with pytest.raises(KilocardError):
        Verifier().verify("m", ModelWeights(path=str(tmp_path), checksums="SHA256SUMS"))


@pytest.mark.parametrize(
    ("sample", "answer", "good"),
    [
        ({"contains": "Paris"}, "It is Paris.", True),
        ({"contains": "Paris"}, "It is Lyon.", False),
        ({"matches": r"\d{4}"}, "in 1789", True),
        ({"matches": r"\d{4}"}, "in 178", False),
        ({"is_json": True}, '{"a": 1}', True),
        ({"is_json": True}, "{", False),
    ],
)
def test_samples_say_what_is_good(sample: dict[str, Any], answer: str, good: bool) -> None:
    assert is_good(Sample(prompt="?", **sample), answer) is good


def line(version: str = "v1", outcome: str = "ok", **more: Any) -> str:
    row = {
        "pool": "chat",
        "version": version,
        "outcome": outcome,
        "queue_s": 0.5,
        "ttft_s": 0.7,
        "took_s": 1.7,
    }
    return json.dumps({**row, "output_tokens": 11, **more}) + "\n"


def test_what_each_version_served_is_read_from_the_log(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text(line() * 3)
    start = log_end(log)
    with log.open("a") as file:
        file.write(
            line() + line("v2") + line("v2", "error") + line("v2", "cancelled") + line("v2", "refused")
        )
        file.write("no json\n" + line(pool="other") + '{"reload": "done"}\n' + line("v2")[:20])
    served = served_since(log, start, "chat")
    assert (served["v1"].requests, served["v2"].requests, served["v2"].errors) == (1, 2, 1)
    assert served["v1"].ttft_s == pytest.approx((0.2,)) and served["v1"].tpot_s == pytest.approx((0.1,))
    assert served_since(tmp_path / "none", 0, "chat") == {}


@given(st.binary(max_size=300))
def test_any_log_is_read(content: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        served_since(Path(file.name), 0, "chat")


def a_trial(tmp_path: Path, spec: ClusterSpec) -> tuple[State, str]:
    """A canary that serves and is judged from now on, and its version."""
    state = a_state(a_spec())
    serving(state)
    read(spec, state, 1.0)
    candidate = state.changes["chat"].candidate
    state.held["chat-0"].slot = replace(state.held["chat-0"].slot, wants=candidate, runs=candidate)
    state.changes["chat"] = replace(state.changes["chat"], judged_since_s=1.0)
    return state, version_of(state, state.held["chat-0"])


def test_a_canary_is_judged_by_the_log_that_the_file_names_and_asked_with_the_engines_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(trial, "answered_well", lambda *about: asked.append(about) or True)
    log = tmp_path / "own" / "access.log"
    log.parent.mkdir()
    checks = {"least_requests": 2, "samples": [{"prompt": "?", "contains": "a"}]}
    spec = a_spec(
        engine={"max_num_seqs": 4},
        lifecycle={"canary": checks},
        gateway={"access_log": {"path": str(log)}},
    )
    state, version = a_trial(tmp_path, spec)
    judged = trial.Trial(Home(tmp_path), "the-key")
    judged.judge(spec, state, "chat", 1.0)
    log.write_text(line(version) * 2)
    verdicts = {judged.judge(spec, state, "chat", 2.0 + k)[0] for k in range(100)}
    judged.close()
    assert Verdict.GOOD in verdicts
    assert [about[-1] for about in asked] == ["the-key"]
