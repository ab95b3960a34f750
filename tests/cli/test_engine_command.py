"""`kilocard engine` and `kilocard doctor`: one line for bad input, JSON for results."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

import kilocard.cli
from kilocard.cli import doctor
from kilocard.cli.check import State


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        kilocard.cli.main(list(arguments))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "/nope"), "no model at '/nope'"),
        (("--model", "smolm2"), "did you mean"),
        (("--port", "70000"), "port 70000 is out of range"),
        (("--max-num-seqs", "0"), "--max-num-seqs 0"),
        (("--gpu-memory-utilization", "3"), "--gpu-memory-utilization 3.0"),
        (("--max-model-len", "many"), "many"),
        (("--no-such-flag",), "--no-such-flag"),
        (("--extra", "'open"), "--extra"),
        (("--drain-s", "inf"), "drain_s inf"),
        (("--cores", "one"), "--cores 'one' is no list of numbers"),
        (("--cores", "4000"), "core 4000 cannot be used"),
        (("--model", "~nosuchuser"), "~nosuchuser"),
    ],
)
def test_bad_input_ends_with_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, "engine", *arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_a_taken_port_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, _, err = run(capsys, "engine", "--port", str(port), "--seed", str(port))
    assert code == 2
    assert f"port {port} is taken" in err


def test_an_address_that_is_no_engine_ends_with_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILOCARD_ENGINE_URL", "http://127.0.0.1:9")
    code, _, err = run(capsys, "engine")
    assert code == 2
    assert "KILOCARD_ENGINE_URL=http://127.0.0.1:9 is no engine" in err
    assert err.count("\n") == 1


def test_the_doctor_says_what_it_found_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "doctor", "--json")
    report = json.loads(out)
    assert {check["name"] for check in report["checks"]} >= {
        "python",
        "vllm",
        "cores",
        "memory",
        "disk",
        "model",
    }
    assert report["usable"] == all(check["state"] != "fail" for check in report["checks"])
    assert code == (0 if report["usable"] else 1)
    assert all(check["advice"] for check in report["checks"] if check["state"] != "ok")


def test_the_doctor_fails_a_box_without_its_engine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILOCARD_ENGINE_URL", "http://127.0.0.1:9")
    code, out, _ = run(capsys, "doctor")
    assert code == 1
    assert "fail  engine elsewhere" in out
    assert "unset KILOCARD_ENGINE_URL" in out


def test_the_doctor_sees_a_damaged_model(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("KILOCARD_CACHE", str(tmp_path))
    assert doctor._model().state is State.OK
    (doctor.cache_dir() / doctor.FOLDER_NAME).mkdir()
    damaged = doctor._model()
    assert damaged.state is State.FAIL
    assert "delete" in damaged.advice


def test_the_doctor_fails_a_box_without_a_place_for_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for place in ("~nosuchuser", "/" + "a" * 300, str(tmp_path / "file" / "cache")):
        monkeypatch.setenv("KILOCARD_CACHE", place)
        assert doctor._disk().state is State.FAIL
        assert doctor._model().state in (State.OK, State.WARN)
