"""A gateway needs no more than its image installs, and no less."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from containerfile import BUILD_TOOLS, asked_for, objects, pod, with_what_they_bring

from kilocard.children import end
from kilocard.processes import free_ports

BARE = Path(__file__).with_name("bare_kilocard.py")
PATIENCE_S = 60.0


def answer(url: str, body: bytes | None = None) -> tuple[int, str]:
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def await_health(url: str, process: subprocess.Popen[str], log: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        try:
            assert answer(f"{url}/health")[0] == 200
            return
        except urllib.error.URLError:
            time.sleep(0.05)
    pytest.fail(log.read_text())


def test_a_gateway_as_its_pod_starts_it_runs_on_what_the_image_installs(tmp_path: Path) -> None:
    [config] = objects("ConfigMap")
    for name, text in config["data"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = [it.replace("/etc/kilocard", str(tmp_path)) for it in pod()["containers"][0]["args"]]
    words[words.index("$(GATEWAY_NUMBER)")] = "1"
    port, metrics, admin = free_ports(3)
    own = {
        "KILOCARD__GATEWAY__METRICS": f"{{host: 127.0.0.1, port: {metrics}}}",
        "KILOCARD__GATEWAY__ADMIN__PORT": str(admin),
    }
    names = with_what_they_bring(asked_for() - BUILD_TOOLS) | {"kilocard"}
    report, log = tmp_path / "used.json", tmp_path / "log"
    with log.open("w") as told:
        process = subprocess.Popen(
            [sys.executable, str(BARE), json.dumps(sorted(names)), str(report), *words,
             "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL, stdout=told, stderr=told, text=True, env={**os.environ, **own},
        )  # fmt: skip
        try:
            await_health(f"http://127.0.0.1:{port}", process, log)
            body = json.dumps({"model": "qwen3-8b", "messages": [{"role": "user", "content": "hi"}]}).encode()
            status, said = answer(f"http://127.0.0.1:{port}/v1/chat/completions", body)
            assert status >= 400 and json.loads(said)["error"]["message"]
            assert "kilocard_gateway_" in answer(f"http://127.0.0.1:{metrics}/metrics")[1]
        finally:
            end(process, PATIENCE_S)
    assert process.returncode == 0, log.read_text()
    assert asked_for() - BUILD_TOOLS <= set(json.loads(report.read_text())), "the image installs more"
