"""Two tiers on this box: HAProxy before several gateways, and what befalls a load when one of them goes."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from kilocard.children import end
from kilocard.deploy.haproxy import render
from kilocard.deploy.haproxy_process import running, statistics
from kilocard.errors import KilocardError
from kilocard.gateway.process import STOP_TIMEOUT_S, AtWork, spawned
from kilocard.gateway.server import Place
from kilocard.launch.metrics import read_metrics
from kilocard.processes import free_ports
from kilocard.record import REQUEST_COLUMNS, Run
from kilocard.record.table import as_typed
from kilocard.specs.cluster import Balancer, ClusterSpec, cluster_from

LOOK_S = 0.02
MOST_WAIT_S = 20.0
WRITTEN_WITHIN_S = 0.6
"""A gateway writes its log every half second, and when it is told to."""


def known_within_s(balancer: Balancer, *, hangs: bool) -> float:
    """Seconds after which HAProxy holds a gateway down at the latest: a whole interval until it asks, and
    `fall` failures, the later ones at a quarter of the interval. One that was killed refuses at once; one
    that hangs costs each check its time-out."""
    a_check_s = balancer.connect_s if hangs else 0.0
    fast_s = balancer.check_every_s / 4
    return balancer.check_every_s + a_check_s + (balancer.fall - 1) * (fast_s + a_check_s)


@dataclass(slots=True)
class Tiers:
    """A running HAProxy and the gateways behind it, each with an access log of its own."""

    spec: ClusterSpec
    gateways: Sequence[AtWork]
    logs: Sequence[Path]

    @property
    def url(self) -> str:
        """Where clients ask: HAProxy's address."""
        return f"http://127.0.0.1:{self.spec.balancer.port}"

    def states(self) -> list[str]:
        """What HAProxy holds of each gateway: UP or DOWN, with a check that is under way."""
        rows = statistics(self.spec.balancer.stats_port)
        return [row["status"] for row in rows if row["svname"].startswith("gateway-")]

    def await_states(self, *wanted: str) -> float:
        """Until HAProxy holds so of them; the moment, in seconds since 1970."""
        until = time.monotonic() + MOST_WAIT_S
        while time.monotonic() < until:
            if tuple(it.partition(" ")[0] for it in self.states()) == wanted:
                return time.time()
            time.sleep(LOOK_S)
        raise KilocardError(f"HAProxy holds {self.states()} of its gateways, not {list(wanted)}")

    def signal(self, gateway: int, number: signal.Signals) -> None:
        """Send a gateway's process a signal."""
        os.kill(self.gateways[gateway].process.pid, number)

    def in_flight(self, gateway: int) -> int:
        """Requests that a gateway has at its engines."""
        return sum(row["in_flight"] for row in self.gateways[gateway].replicas())

    def by_gateway(self, run: Run, gone: int | None = None) -> Run:
        """The run with the number of the gateway that each request went through, as the access logs have it;
        a request that no log knows went through the one that was killed."""
        held: dict[str, str] = {} if gone is None else dict.fromkeys(run.requests["request_id"], str(gone))
        for number, gateway in enumerate(self.gateways):
            if gateway.process.poll() is None:
                self.signal(number, signal.SIGUSR1)  # it writes what its log still keeps
        time.sleep(WRITTEN_WITHIN_S)
        began = datetime.fromtimestamp(float(run.stamp.client["began_s"]), UTC)
        for number, log in enumerate(self.logs):
            for line in log.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                if datetime.fromisoformat(entry["at"]) >= began:
                    held[entry.get("request_id", "")] = str(number)
        table = run.requests.copy()
        table["gateway"] = table["request_id"].map(held)
        return replace(run, requests=as_typed(table, REQUEST_COLUMNS))


@contextmanager
def two_tiers(cluster: Mapping[str, Any], gateways: int = 2, **balancer: Any) -> Iterator[Tiers]:
    """Run HAProxy before so many gateways over a cluster, on free ports; all ends with the block.

    HAProxy's file is rendered from the cluster's. Yields when every gateway is up and knows its engines.
    """
    ports = free_ports(3 * gateways + 2)
    public, admins, doors = (ports[part * gateways :][:gateways] for part in range(3))
    places = [f"127.0.0.1:{port}" for port in public]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kilocard-tiers-")))
        logs = [folder / f"{number}.log" for number in range(gateways)]
        own = {"gateways": gateways, "places": places, **cluster.get("gateway", {})}
        files = [
            {
                **cluster,
                "gateway": {
                    **own,
                    "admin": {"port": admins[number] - number},
                    "metrics": {"port": doors[number] - number},
                    "access_log": {"path": str(logs[number])},
                },
                "balancer": {**balancer, "port": ports[-2], "stats_port": ports[-1]},
            }
            for number in range(gateways)
        ]
        at_work = [
            stack.enter_context(_gateway(file, folder, number, gateways, public[number]))
            for number, file in enumerate(files)
        ]
        for one in at_work:
            one.await_models()
        tiers = Tiers(cluster_from(files[0]), at_work, logs)
        stack.enter_context(running(render(tiers.spec), ports[-1]))
        tiers.await_states(*["UP"] * gateways)
        yield tiers


@dataclass(frozen=True, slots=True)
class View:
    """One engine at one moment: what each gateway counts and may have there, and what the engine says."""

    engine: int
    counted: tuple[int, ...]
    caps: tuple[int, ...]
    running: int


def views(tiers: Tiers) -> list[View]:
    """How the gateways, and the engines themselves, see the engines now."""
    seen = [gateway.replicas() for gateway in tiers.gateways]
    urls = [replica.url for _, replica in tiers.spec.replicas]
    said = [read_metrics(url) for url in urls]
    return [
        View(
            number,
            tuple(rows[number]["in_flight"] for rows in seen),
            tuple(rows[number]["cap"] for rows in seen),
            (it.running or 0) + (it.waiting or 0),
        )
        for number, it in enumerate(said)
    ]


def meanwhile(load: Callable[[], Run], look: Callable[[], Any], after_s: float) -> tuple[Run, Any]:
    """A run, and what a look after so many seconds of it saw."""
    seen: list[Any] = []
    timer = threading.Timer(after_s, lambda: seen.append(look()))
    timer.start()
    run = load()
    timer.join()
    return run, seen[0]


@contextmanager
def _gateway(
    file: Mapping[str, Any], folder: Path, number: int, gateways: int, port: int
) -> Iterator[AtWork]:
    path = folder / f"{number}.yaml"
    path.write_text(yaml.safe_dump(dict(file)), encoding="utf-8")
    process, about = spawned(Place(path, "127.0.0.1", port, gateway=number, gateways=gateways, drain_s=1.0))
    try:
        yield AtWork(about, process, path)
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        end(process, STOP_TIMEOUT_S)
