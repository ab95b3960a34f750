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
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml

from kilocard.children import end, first_word
from kilocard.errors import KilocardError
from kilocard.gateway.place import Place
from kilocard.processes import die_with_parent, free_ports

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
        place = Place(path, "127.0.0.1", gateway["port"], drain_s=drain_s)
        process, about = spawned(place)
        try:
            running = AtWork(about, process, path)
            if awaits_models:
                running.await_models()
            yield running
        finally:
            end(process, STOP_TIMEOUT_S)


def spawned(place: Place) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """One gateway process at a place, and what it tells of itself; it is asked to end when this one dies."""
    me = os.getpid()
    process = subprocess.Popen(
        [sys.executable, "-m", "kilocard.gateway", json.dumps({**asdict(place), "path": str(place.path)})],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: die_with_parent(me, signal.SIGTERM),  # noqa: PLW1509 (it takes no lock)
    )
    try:
        return process, first_word(process, "the gateway")
    except BaseException:
        end(process, STOP_TIMEOUT_S)
        raise
