"""Replicas are begun together, each on its own cores, and all go when one fails."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

import pytest
from launch_fakes import FAKE, SPEC, Fake, eventually

from kilocard.errors import KilocardError
from kilocard.launch import EngineError, launch_replicas, process, replicas, start, start_replicas, stop_all
from kilocard.launch.command import Build, Command, Flavour, NoBuildError
from kilocard.launch.place import Place
from kilocard.specs.engine import EngineSpec


@pytest.fixture
def lent(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The cores that this process may use, on a box whose vLLM is the fake one."""
    cores = process.usable_cores()

    def command_for(spec: EngineSpec, build: Build, say: object, drain_s: float, place: Place) -> Command:
        return replace(fake.command, cores=place.cores)

    for room in (process, replicas):
        monkeypatch.setattr(room, "find_build", lambda: Build(Flavour.CPU, "9.9.9"))
        monkeypatch.setattr(room, "command_for", command_for)
    return cores


def affinity(engine: object) -> set[int]:
    return os.sched_getaffinity(engine._hold.info["engine_pid"])  # type: ignore[attr-defined]


def test_each_has_its_own_cores(fake: Fake, lent: list[int]) -> None:
    with launch_replicas(SPEC, len(lent)) as engines:
        assert [affinity(engine) for engine in engines] == [{core} for core in lent]
        assert len({engine.url for engine in engines}) == len(lent)
        assert all(engine.complete("x") == " Paris" for engine in engines)
    assert fake.is_gone()


def test_they_start_together(fake: Fake, lent: list[int]) -> None:
    fake.flags = ("--warm-up-s", "1.0")
    notes = fake.cache / "starts"
    fake.flags = ("--warm-up-s", "0.5", "--count", str(notes))
    with launch_replicas(SPEC, len(lent)) as engines:
        assert all(engine.ready_s >= 0.5 for engine in engines)
        starts = [line.isdigit() for line in notes.read_text().split()]
        assert sum(starts) == len(lent)


def test_where_one_fails_none_is_left(fake: Fake, lent: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    good = process.command_for

    def last_fails(*given: object) -> Command:
        command = good(*given)  # type: ignore[arg-type]
        bad = (sys.executable, "-S", str(FAKE), "--say", "FrobError: the frob is off", "--exit", "3")
        return replace(command, argv=bad) if command.cores == (lent[-1],) else command

    monkeypatch.setattr(process, "command_for", last_fails)
    fake.flags = ("--workers", "--warm-up-s", "60")
    began = time.monotonic()
    with pytest.raises(EngineError, match="FrobError: the frob is off"):
        start_replicas(SPEC, len(lent))
    assert time.monotonic() - began < 50, "the first one was waited for"
    assert eventually(fake.is_gone)


def test_an_engine_that_runs_is_one_of_them_where_its_cores_fit(fake: Fake, lent: list[int]) -> None:
    before = start(SPEC)
    engines = start_replicas(SPEC, len(lent))
    fits = len(lent) == 2
    assert (engines[0].url == before.url) is fits
    assert engines[0].is_shared is fits
    stop_all(engines)
    assert before.complete("still") == " Paris"
    before.stop()
    assert fake.is_gone()


def test_the_same_spec_on_other_cores_is_another_engine(fake: Fake, lent: list[int]) -> None:
    one, other = start(SPEC, cores=lent[:1]), start(SPEC, cores=lent[-1:])
    again = start(SPEC, cores=lent[:1])
    assert one.url == again.url
    assert (one.url != other.url) is (len(lent) > 1)
    stop_all([one, other, again])
    assert fake.is_gone()


def test_what_does_not_fit_is_refused(fake: Fake, lent: list[int]) -> None:
    many = len(lent) + 1
    with pytest.raises(
        KilocardError, match=f"{many} replicas of 1 rank need {many} cores and this box lends"
    ):
        start_replicas(SPEC, many)
    with pytest.raises(KilocardError, match="0 replicas cannot be started: take 1 to 64"):
        start_replicas(SPEC, 0)
    with pytest.raises(KilocardError, match="core 4000 cannot be used"):
        start(SPEC, cores=(4000,))
    assert fake.is_gone()


def test_several_that_run_elsewhere_are_named_by_their_urls(
    fake: Fake, lent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with launch_replicas(SPEC, len(lent)) as engines:
        urls = [engine.url for engine in engines]
        monkeypatch.setenv("KILOCARD_ENGINE_URL", ", ".join([*urls, urls[0]]))
        assert [engine.url for engine in start_replicas(SPEC, len(lent))] == urls
        assert start(SPEC).url == urls[0]
        many = len(lent) + 1
        with pytest.raises(
            KilocardError, match=rf"names {len(lent)} of {many} replicas.*separated by commas"
        ):
            start_replicas(SPEC, many)


def test_emulated_ones_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_build() -> Build:
        raise NoBuildError("this Python has no vllm: install it")

    monkeypatch.delenv("KILOCARD_ENGINE_URL", raising=False)
    for room in (process, replicas):
        monkeypatch.setattr(room, "find_build", no_build)
    with pytest.warns(UserWarning, match="EMULATED"), launch_replicas(EngineSpec(), 2) as engines:
        assert len({engine.url for engine in engines}) == 2
        assert all(engine.flavour is Flavour.EMULATED and engine.complete("x") for engine in engines)
        assert [set(engine.ranks()) for engine in engines] == [{"Engine"}] * 2
    with pytest.raises(NoBuildError, match="install it"):
        start_replicas(EngineSpec(), 2, stand_in=False)


def test_a_gpu_box_lends_the_cards_that_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert replicas.visible_cards() == ["3", "5"]
    monkeypatch.setattr(replicas, "find_build", lambda: Build(Flavour.GPU, "0.32.0"))
    assert replicas.most_ranks() == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert replicas.most_ranks() == 0
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(replicas, "describe_box", lambda: {"gpus": [{"name": "one"}, {"name": "two"}]})
    assert replicas.visible_cards() == ["0", "1"]
