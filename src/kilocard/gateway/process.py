"""A gateway in a process of its own: from a notebook, a test or a benchmark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml

from kilocard.errors import KilocardError
from kilocard.processes import free_ports

STOP_TIMEOUT_S = 15.0
READY_TIMEOUT_S, READY_LOOK_S = 30.0, 0.1


@dataclass(frozen=True, slots=True)
class AtWork:
    """A running gateway. `about` is what `kilocard gateway --json` tells of one process."""

    about: dict[str, Any]
    process: subprocess.Popen[str]
    path: Path
    """Its cluster file; a changed one is read at `reload`."""

    @property
    def url(self) -> str:
        """Where clients ask."""
        return str(self.about["url"])

    def replicas(self) -> list[dict[str, Any]]:
        """Every replica as the gateway sees it."""
        listed: list[dict[str, Any]] = self.order("/replicas")["replicas"]
        return listed

    def order(self, path: str, **what: Any) -> dict[str, Any]:
        """Give an order at the admin port, like `order("/drain", id="127.0.0.1:8001")`."""
        connection = HTTPConnection(self.about["admin"].removeprefix("http://"), timeout=10)
        try:
            if what or path != "/replicas":
                connection.request("POST", path, json.dumps(what), {"Content-Type": "application/json"})
            else:
                connection.request("GET", path)
            answer = connection.getresponse()
            told: dict[str, Any] = json.load(answer)
            if answer.status != 200:
                raise KilocardError(told["error"]["message"])
            return told
        finally:
            connection.close()

    def reload(self, cluster: Mapping[str, Any]) -> None:
        """Put another cluster in its file, and have it read."""
        self.path.write_text(yaml.safe_dump(dict(cluster)), encoding="utf-8")
        self.order("/reload")

    def await_models(self) -> None:
        """Until engines have said what they serve; an error after half a minute."""
        until = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < until and self.process.poll() is None:
            with urllib.request.urlopen(f"{self.url}/v1/models", timeout=10) as answer:
                if json.load(answer)["data"]:
                    return
            time.sleep(READY_LOOK_S)
        states = ", ".join(f"{row['id']} {row['state']}" for row in self.replicas())
        raise KilocardError(f"no engine behind {self.url} has said what it serves: {states}")


@contextmanager
def gateway_over(
    cluster: Mapping[str, Any], *, drain_s: float = 5.0, awaits_models: bool = True
) -> Iterator[AtWork]:
    """Run a gateway over a cluster, on free ports unless it names some; it ends with the block, or with this
    process. Unless told not to, it waits until engines have said what they serve."""
    ports = free_ports(3)
    gateway = {
        "port": ports[0],
        "admin": {"port": ports[1]},
        "metrics": {"port": ports[2]},
        **cluster.get("gateway", {}),
    }
    with tempfile.TemporaryDirectory(prefix="kilocard-gateway-") as folder:
        path = Path(folder) / "cluster.yaml"
        gateway.setdefault("access_log", {"path": str(Path(folder) / "access.log")})
        path.write_text(yaml.safe_dump({**cluster, "gateway": gateway}), encoding="utf-8")
        place = {"path": str(path), "host": "127.0.0.1", "port": gateway["port"], "drain_s": drain_s}
        process = subprocess.Popen(
            [sys.executable, "-m", "kilocard.gateway", json.dumps(place)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ},
        )
        try:
            running = AtWork(_about(process), process, path)
            if awaits_models:
                running.await_models()
            yield running
        finally:
            _stop(process)


def _about(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise KilocardError("the gateway did not start; its process said why on stderr")
    told: dict[str, Any] = json.loads(line)
    if "error" in told:
        raise KilocardError(told["error"])
    return told


def _stop(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
