"""The other end of a network test, as a process of its own."""

import os
from pathlib import Path

import pytest

from kilocard.errors import KilocardError
from kilocard.network import measure_network
from kilocard.notebook import far_end as module
from kilocard.notebook.far_end import far_end
from kilocard.processes import descendants
from kilocard.topology import read_host


def far_ends() -> list[int]:
    return [pid for pid in descendants(os.getpid()) if module.__name__ in _command(pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_it_answers_on_the_cores_that_were_named_and_is_gone_after():
    core = read_host().cores[0]
    with far_end([core]) as (host, port):
        (process,) = far_ends()
        assert os.sched_getaffinity(process) == {core}
        seen = measure_network(host, port, limit_s=5)
    assert seen.trips[-1].median_s > 0 and not far_ends()


def test_it_is_gone_when_the_block_fails():
    with pytest.raises(ZeroDivisionError), far_end():
        1 / 0  # noqa: B018
    assert not far_ends()


def test_one_that_does_not_start_is_told(monkeypatch):
    monkeypatch.setattr(module.sys, "executable", "/bin/false")
    with pytest.raises(KilocardError, match="did not start"), far_end():
        pass
    assert not far_ends()
