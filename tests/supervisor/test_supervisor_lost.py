"""What is left when a supervisor has died and its state or its file is spoilt: found, and ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kilocard.errors import KilocardError
from kilocard.launch.keep import Kept, Program, keep
from kilocard.lifecycle import Change, Phase, Stage
from kilocard.processes import free_ports
from kilocard.supervisor.ending import end_here
from kilocard.supervisor.home import Home, home_of, home_of_file
from kilocard.supervisor.running import remember, taken_up
from kilocard.supervisor.state import State, boot_id, write_state

SLEEP = "import time\ntime.sleep(600)"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster file, with its home in a folder of the test's own."""
    monkeypatch.setenv("KILOCARD_CLUSTERS", str(tmp_path / "clusters"))
    place = tmp_path / "t.yaml"
    pool = {"name": "chat", "card": "h100-sxm", "replicas": 2, "port": free_ports(1)[0]}
    place.write_text(yaml.safe_dump({"name": "t", "model": "qwen3-8b", "pools": [pool]}))
    return place


@pytest.fixture
def home(path: Path) -> Home:
    return home_of("t")


@pytest.fixture
def running(home: Home) -> Iterator[Kept]:
    """A program in the place of an engine."""
    [port] = free_ports(1)
    log = home.log_of("chat-0")
    program = Program([sys.executable, "-S", "-c", SLEEP], dict(os.environ), log, 1.0, port=port)
    kept = keep(home.key_of("chat-0"), program, "abc")
    yield kept
    kept.kill()


@pytest.mark.parametrize("spoilt", [None, "", '{"form": 2, "boo', '{"form": 1, "boot": "x"}'])
def test_a_program_that_no_state_knows_is_found_by_its_name(
    path: Path, home: Home, running: Kept, spoilt: str | None
) -> None:
    if spoilt is not None:
        home.state.write_text(spoilt)
    said: list[str] = []
    held = taken_up(home, path, said.append).held["chat-0"]
    assert held.kept == running and held.port > 0
    assert (held.slot.pool, held.slot.phase, held.slot.runs) == ("chat", Phase.SERVING, "abc")
    assert any("chat-0 was found" in line for line in said)
    assert home.state.exists() is False and (spoilt is None or (home.folder / "state.bad.json").exists())


def test_a_state_of_another_boot_is_none(path: Path, home: Home) -> None:
    write_state(home.state, State("another", "x", changes={"chat": Change("a")}))
    assert taken_up(home, path, print) == State(boot_id(), str(path.resolve()))


def test_a_canary_is_judged_anew_by_who_takes_it_up(path: Path, home: Home) -> None:
    change = Change("a", "b", Stage.TRYING, 1.0, judged_since_s=2.0)
    write_state(home.state, State(boot_id(), "x", changes={"chat": change}))
    assert taken_up(home, path, print).changes == {"chat": replace(change, judged_since_s=None)}


def test_a_home_is_found_by_the_file_that_was_run_from_it(path: Path, home: Home) -> None:
    with pytest.raises(KilocardError, match="cannot read the cluster"):
        home_of_file(path.with_name("other.yaml"))
    write_state(home.state, State(boot_id(), str(path.resolve())))
    path.write_text("name: [")
    assert home_of_file(path) == home
    path.unlink()
    assert home_of_file(path) == home


@pytest.mark.parametrize("text", ["name: [", None])
def test_what_runs_is_ended_by_what_was_read_last(
    path: Path, home: Home, running: Kept, text: str | None
) -> None:
    remember(path, home)
    path.unlink() if text is None else path.write_text(text)
    end_here(path, home, print)
    assert not running.is_alive and not home.state.exists()
