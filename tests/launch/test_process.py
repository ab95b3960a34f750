"""An engine is ready when it completes, says why when it is not, and is gone without a trace."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest
from launch_fakes import SPEC, Fake, eventually, traces

from kilocard.errors import KilocardError
from kilocard.launch import EngineError, launch, start
from kilocard.launch.command import Flavour


def test_ready_means_that_a_completion_was_answered(fake: Fake) -> None:
    fake.flags = ("--warm-up-s", "0.6")
    with launch(SPEC, command=fake.command) as engine:
        assert engine.ready_s >= 0.6
        assert engine.complete("The capital of France is") == " Paris"
        assert engine.version == "9.9.9"
        assert engine.metrics().running == 3
        assert not engine.is_shared


def test_nothing_is_left_after_a_with_block(fake: Fake) -> None:
    with launch(SPEC, command=fake.command) as engine:
        pid = engine._hold.info["engine_pid"]
        guard_pid, url = fake.guard_pid(pid), engine.url
        assert len(fake.processes()) == 3
        assert len(traces(pid, guard_pid, url)) == 3
    assert fake.is_gone()
    assert traces(pid, guard_pid, url) == []
    assert not Path(f"/proc/{guard_pid}").exists() or eventually(
        lambda: not Path(f"/proc/{guard_pid}").exists()
    )


def test_nothing_is_left_after_an_exception(fake: Fake) -> None:
    with pytest.raises(ZeroDivisionError), launch(SPEC, command=fake.command):
        raise ZeroDivisionError
    assert fake.is_gone()


def test_an_engine_that_is_not_referred_to_any_more_is_stopped(fake: Fake) -> None:
    engine = fake.start()
    engine = fake.start()
    assert fake.processes()
    engine.stop()
    assert fake.is_gone()


def test_an_engine_that_ignores_sigterm_is_killed(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.flags = ("--workers", "--drain-s", "-1")
    engine = fake.start(drain_s=-4.5)
    engine.stop()
    assert fake.is_gone()


def test_a_death_at_start_is_told_in_one_line_with_its_cause_and_log(fake: Fake) -> None:
    fake.flags = ("--say", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "--exit", "1")
    with pytest.raises(EngineError, match="out of memory: lower kv_cache_memory_bytes") as caught:
        fake.start()
    assert "\n" not in str(caught.value)
    assert "exit code 1" in str(caught.value)
    log = Path(str(caught.value).rpartition("log: ")[2].rstrip(")"))
    assert "CUDA out of memory" in log.read_text()
    assert "CUDA out of memory" in caught.value.log_tail


def test_a_refused_completion_ends_the_wait(fake: Fake) -> None:
    fake.flags = ("--refuse", "400")
    with pytest.raises(EngineError, match="no completion, HTTP 400"):
        fake.start()


def test_an_engine_that_never_completes_is_given_up(fake: Fake) -> None:
    fake.flags = ("--warm-up-s", "600")
    with pytest.raises(EngineError, match="no completion"):
        fake.start(ready_timeout_s=0.5)


def test_a_program_that_cannot_be_started_is_named(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    from kilocard.launch.command import Command

    with pytest.raises(KilocardError, match="/no/such/python"):
        start(SPEC, command=Command(("/no/such/python",), {"KILOCARD_TEST_TAG": fake.tag}))


def test_a_death_in_service_is_told(fake: Fake) -> None:
    engine = fake.start()
    os.kill(engine._hold.info["engine_pid"], signal.SIGKILL)
    with pytest.raises(EngineError, match=r"the engine died.*exit code -9"):
        engine.wait()
    assert eventually(fake.is_gone)
    engine.stop()


@pytest.mark.parametrize("port", [-1, 65536, 700000])
def test_a_port_out_of_range_is_refused(fake: Fake, port: int) -> None:
    with pytest.raises(KilocardError, match=f"port {port} is out of range"):
        fake.start(port=port)


def test_a_taken_port_is_refused_at_once(fake: Fake) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(KilocardError, match=f"port {port} is taken"):
            fake.start(port=port)


def test_a_port_that_another_engine_is_about_to_take_is_refused(fake: Fake) -> None:
    fake.flags = ("--warm-up-s", "0.3")
    engine = fake.start()
    port = int(engine.url.rpartition(":")[2])
    other = Fake(fake.cache)
    with pytest.raises(KilocardError, match=f"port {port} is taken"):
        other.start(port=port)
    engine.stop()


def test_the_named_port_is_the_one_it_serves_on(fake: Fake) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    engine = fake.start(port=port)
    assert engine.url == f"http://127.0.0.1:{port}"
    assert fake.start(port=port).url == engine.url
    with pytest.raises(KilocardError, match="leave the port out to share it"):
        fake.start(port=port - 1)
    engine.stop()


def test_an_engine_elsewhere_is_used_as_it_is(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    with launch(SPEC, command=fake.command) as engine:
        monkeypatch.setenv("KILOCARD_ENGINE_URL", f"{engine.url}/v1/")
        other = start()
        assert other.flavour is Flavour.REMOTE
        assert other.url == engine.url
        assert other.model == "fake-model"
        assert "serves fake-model, not smollm2-135m" in other.said
        assert other.spec.max_model_len == 64
        stamp = other.stamp_fields()
        assert (stamp["engine"], stamp["engine_version"]) == ("fakery", "9.9.9")
        assert stamp["settings"] == {"flavour": "remote", "max_model_len": 64}
        other.stop()
        assert fake.processes()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9", "127.0.0.1:9", "nonsense", "ftp://127.0.0.1", "http://[::1"]
)
def test_an_address_that_is_no_engine_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("KILOCARD_ENGINE_URL", url)
    with pytest.raises(KilocardError, match="is no engine") as caught:
        start()
    assert url in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_stamp_names_engine_version_and_settings(fake: Fake) -> None:
    with launch(SPEC.model_copy(update={"max_num_seqs": 4}), command=fake.command) as engine:
        stamp = engine.stamp_fields()
    assert (stamp["engine"], stamp["engine_version"], stamp["layout"]) == ("vllm", "9.9.9", "TP 1")
    assert stamp["settings"]["max_num_seqs"] == 4
    assert stamp["settings"]["enforce_eager"]
    assert stamp["card"]


def test_waiting_for_a_stop_takes_as_long_as_the_drain(fake: Fake) -> None:
    fake.flags = ("--drain-s", "0.4")
    engine = fake.start()
    began = time.monotonic()
    engine.stop()
    assert time.monotonic() - began >= 0.4
    engine.stop()
