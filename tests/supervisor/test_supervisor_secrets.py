"""No secret of a cluster is written down, shown, or told, whatever is asked, fails or is rolled."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from kilocard import cli
from kilocard.gateway.keys import make_key
from kilocard.launch.command import Build, Flavour
from kilocard.launch.place import ANYWHERE
from kilocard.specs.cluster import cluster_from
from kilocard.supervisor import programs
from kilocard.supervisor.gateways import GatewaySeat
from kilocard.supervisor.home import Home
from kilocard.supervisor.process import AtWork, supervised, write_cluster
from kilocard.supervisor.recipe import recipe_of
from kilocard.supervisor.running import ADMIN_KEY
from kilocard.supervisor.starting import Starter

SOON_S = 60.0
TARGETS = ("kubernetes", "haproxy", "prometheus", "grafana", "ray-serve")
CARD = {"name": "chat", "card": "h100-sxm", "replicas": 1}


@pytest.fixture
def all_secrets(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What must be found nowhere, by what it is for; those of the environment stand in it."""
    told = {
        "client": make_key("a")[0],
        "operator": make_key("b")[0],
        "unknown": make_key("c")[0],
        "engine": "plain-" + secrets.token_hex(16),
        "hub": "hf_" + secrets.token_hex(16),
    }
    for name, kind in ((ADMIN_KEY, "operator"), ("ENGINES_KEY", "engine"), ("HF_TOKEN", "hub")):
        monkeypatch.setenv(name, told[kind])
    return told


def key_file(path: Path, key: str) -> dict[str, str]:
    """A file with the key's line."""
    path.write_text(f"somebody sha256:{sha256(key.encode()).hexdigest()} tenant=acme\n")
    return {"file": str(path)}


def a_cluster(folder: Path, its: dict[str, str]) -> dict[str, Any]:
    """One engine, with a secret in each place that takes one."""
    return {
        "name": "t",
        "model": "qwen3-8b",
        "version": "v1",
        "engine": {"max_num_seqs": 16, "environment": {"HF_TOKEN": {"variable": "HF_TOKEN"}}},
        "pools": [CARD],
        "gateway": {
            "keys": key_file(folder / "keys", its["client"]),
            "admin": {"keys": key_file(folder / "operators", its["operator"])},
            "engine_key": {"variable": "ENGINES_KEY"},
        },
        "lifecycle": {
            "ready": {"every_s": 0.1, "successes": 1, "within_s": 60},
            "drain_s": 5,
            "stop_s": 2,
            "roll": {"verify_s": 0},
        },
    }


def ask(running: AtWork, key: str, path: str = "/v1/completions", model: str = "qwen3-8b") -> tuple[int, str]:
    body = json.dumps({"model": model, "prompt": "a", "max_tokens": 2}).encode()
    shown = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        with urlopen(Request(running.url + path, body, shown), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit):
        cli.main(list(arguments))
    return "".join(capsys.readouterr())


def written(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path), path.read_text(errors="replace")


def command_lines() -> Iterator[tuple[str, str]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield str(path), path.read_bytes().decode(errors="replace")
        except OSError:
            continue


def test_no_secret_is_written_or_shown(
    all_secrets: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a cluster that serves, refuses, fails and is rolled."""
    with supervised(a_cluster(tmp_path, all_secrets), is_emulated=True) as running:
        monkeypatch.setenv("KILOCARD_CLUSTERS", str(running.home.folder.parent))
        before = running.engines()["chat-0"].kept
        answers = [ask(running, all_secrets["client"]), ask(running, all_secrets["unknown"])]
        answers += [ask(running, all_secrets["client"], model="none")]
        answers += [ask(running, all_secrets["client"], path="/v1/none")]
        running.roll()
        running.await_that(lambda: running.engines()["chat-0"].kept not in (None, before), SOON_S)
        running.await_that(running.is_ready, SOON_S)
        place, out = str(running.path), tmp_path / "out"
        told = [
            run(capsys, "status", place),
            run(capsys, "status", place, "--json"),
            run(capsys, "lint", place, "--json"),
            *(run(capsys, "render", place, "--target", it, "--out", str(out / it)) for it in TARGETS),
        ]
        seen = [*command_lines(), *written(running.home.folder), ("what was said", running.said)]
    assert [status for status, _ in answers] == [200, 401, 404, 404]
    seen += [*written(out), *(("an answer", text) for _, text in answers)]
    seen += [("a command", text) for text in told]
    assert {"chat-0.log", "gateway-0.log"} <= {Path(place).name for place, _ in seen}
    assert not [(place, kind) for place, text in seen for kind, it in all_secrets.items() if it in text]


HIDDEN = "hf_" + "Ab1" * 10
PLAIN = "plain-words-of-a-secret"
LEAKY = {
    "a flag and its value in one word": {"engine": {"extra_args": [f"--api-key {PLAIN}"]}},
    "arguments that are no list": {"engine": {"extra_args": f"--hf-token {PLAIN}"}},
    "an argument with a line break": {"engine": {"extra_args": [f"--x={PLAIN}\n"]}},
    "a variable that is plain": {"engine": {"environment": {"HF_TOKEN": PLAIN}}},
    "an environment that is text": {"engine": {"environment": f"HF_TOKEN={PLAIN}"}},
    "a key as a tenant's name": {"gateway": {"tenants": {HIDDEN: {"ceiling": "none"}}}},
    "a key as a key": {HIDDEN: 1},
    "a key as a section": {"gateway": HIDDEN},
    "a key that is plain": {"gateway": {"engine_key": PLAIN}},
    "a password in a URL": {"weights": {"path": f"https://a:{PLAIN}@b/c"}},
    "a lender of that name": {"pools": [{**CARD, "borrow_from": [HIDDEN]}]},
    "a version that is none": {"gateway": {"canary": {"version": HIDDEN, "share": 0.1}}},
}


@pytest.mark.parametrize("what", LEAKY)
def test_a_fault_tells_no_secret(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.yaml"
    write_cluster(path, {"name": "t", "model": "qwen3-8b", "pools": [CARD], **LEAKY[what]})
    told = (
        run(capsys, "lint", str(path)),
        run(capsys, "lint", str(path), "--json"),
        run(capsys, "up", str(path)),
    )
    assert "nothing is wrong" not in told[0] and json.loads(told[1])["faults"]
    assert not [text for text in told for secret in (HIDDEN, PLAIN) if secret in text]


BROKEN = (
    f"a: &x 1\nb: *{HIDDEN}\n",
    f"{HIDDEN}: 1\n{HIDDEN}: 2\n",
    f"a: !{HIDDEN} 1\n",
    f"a: !!int {HIDDEN}\n",
)


@pytest.mark.parametrize("text", BROKEN)
def test_a_file_that_is_no_yaml_tells_no_secret(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    for arguments in (("lint", str(path)), ("lint", str(path), "--json"), ("up", str(path))):
        told = run(capsys, *arguments)
        assert "cannot read the cluster" in told and HIDDEN not in told


def test_what_is_passed_on_shows_no_secret() -> None:
    """However it is printed."""
    its = [
        Starter(Home(Path("/h")), True, PLAIN, PLAIN),
        GatewaySeat(0, "http://127.0.0.1:1", PLAIN),
    ]
    assert not [it for it in its if PLAIN in repr(it)]
    assert PLAIN not in GatewaySeat(0, "http://127.0.0.1:1", f"{PLAIN}\n").reload()


def test_an_engine_gets_its_secrets_in_its_environment_alone(
    all_secrets: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "find_build", lambda: Build(Flavour.CPU, "0"))
    monkeypatch.setattr(programs, "model_folder", lambda name, _: name)
    spec = cluster_from(a_cluster(tmp_path, all_secrets))
    recipe = recipe_of(spec, spec.pools[0], is_emulated=False)
    program = programs.engine_program(recipe, 1, tmp_path / "log", ANYWHERE, all_secrets["engine"])
    assert program.environment["HF_TOKEN"] == all_secrets["hub"]
    assert program.environment["VLLM_API_KEY"] == all_secrets["engine"]
    shown = [*program.argv, repr(program), recipe.model_dump_json()]
    assert not [it for it in shown for secret in all_secrets.values() if secret in it]
