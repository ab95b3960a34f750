"""A small service to watch: emulated engines, a gateway, some load, and a fault when it is wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import yaml

from kilocard.deploy.prometheus_process import Prometheus, faults_of
from kilocard.emulator import Emulated, emulated
from kilocard.errors import KilocardError
from kilocard.gateway.process import AtWork, gateway_over
from kilocard.launch import Engine
from kilocard.load import replay
from kilocard.processes import free_row_of_ports
from kilocard.specs import case_from
from kilocard.specs.cluster import ClusterSpec
from kilocard.workload import Arrivals, Fixed, Workload

MODEL, CARD = "llama-3.1-8b", "h100-sxm"
FOR_S = 5.0
RATE_PER_S, PROMPT_TOKENS, OUTPUT_TOKENS = 12.0, 64, 60
ROLLING_S, EVALUATION_S = 3.0, 3.0
"""Until a gateway's rolling mean has met a few slow answers; how often rules are evaluated here."""
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Fired:
    """An alert: when, in seconds since 1970, and for whom."""

    at_s: float
    labels: Mapping[str, str]


@dataclass
class Scene:
    """Engines and a gateway at work; `cluster` is the file that says so."""

    cluster: dict[str, Any]
    engines: Emulated
    gateway: AtWork
    began_s: float = field(default_factory=time.time)
    slow_s: float = 0.0
    kind: str = "emulated"

    def load_for(self, seconds: float) -> None:
        """Poisson arrivals, in the background, that end by themselves."""
        load = Workload(
            round(seconds * RATE_PER_S), Fixed(PROMPT_TOKENS), Fixed(OUTPUT_TOKENS), Arrivals(RATE_PER_S)
        )
        replay(self.gateway.url, self.engines.model, workloads=load)

    def slow(self, engine: int, times: float) -> None:
        """From now on each of its steps takes so many times as long."""
        self.engines.fault(engine, slow=times)
        self.slow_s = time.time()

    @property
    def now_s(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def name_of(self, engine: int) -> str:
        """As the gateway calls it."""
        return str(self.gateway.replicas()[engine]["id"])

    def share_of(self, engine: int) -> float:
        """Of its part, that the gateway gives it now."""
        return float(self.gateway.replicas()[engine]["share"])

    def until_fires(self, eye: Prometheus, name: str, within_s: float) -> Fired:
        """Under load, until an alert fires."""
        until, ended = time.time() + within_s, threading.Event()
        loading = threading.Thread(target=self._load_until, args=(ended,))
        loading.start()
        try:
            while time.time() < until:
                for labels in firing(eye, name):
                    return Fired(time.time(), labels)
                time.sleep(LOOK_S)
        finally:
            ended.set()
            loading.join()
        raise KilocardError(f"{name} has not fired within {within_s:.0f} s")

    def _load_until(self, ended: threading.Event) -> None:
        while not ended.is_set():
            with suppress(KilocardError):
                self.load_for(3)


def firing(eye: Prometheus, name: str) -> list[Mapping[str, str]]:
    """For whom an alert fires now: its labels."""
    told = (alert for alert in eye.alerts() if alert["state"] == "firing")
    return [alert["labels"] for alert in told if alert["labels"]["alertname"] == name]


def is_firing(eye: Prometheus, name: str) -> bool:
    """Whether it fires for anybody."""
    return bool(firing(eye, name))


@contextmanager
def scene(replicas: int = 4) -> Iterator[Scene]:
    """A service of so many emulated engines, with a cluster file whose alerts are in a hurry."""
    case = case_from(
        {
            "model": MODEL,
            "card": CARD,
            "replicas": replicas,
            "workload": {"requests": 1, "rate_per_s": 1, "prompt_tokens": 64, "output_tokens": 1},
        }
    )
    with ExitStack() as stack:
        engines = stack.enter_context(emulated(case))
        cluster = {
            "name": "eyes",
            "model": engines.model,
            "pools": [{"name": "chat", "cap": 32, "replicas": engines.urls}],
            "slo": {"ttft_p99_s": 2, "tpot_p99_s": 0.1},
            "alerts": {"for_s": FOR_S},
            "deployment": {"scrape_s": 1},
            "gateway": {
                "port": free_row_of_ports(1),
                "admin": {"port": free_row_of_ports(1)},
                "metrics": {"port": free_row_of_ports(1)},
                "health": {"slow": {"floor_s": 0.005}},
            },
        }
        gateway = stack.enter_context(gateway_over(cluster))
        yield Scene(cluster, engines, gateway)


def watched_too(files: Mapping[str, str], engine: Engine) -> dict[str, str]:
    """Prometheus's files with one more engine to read, whoever it serves."""
    config = yaml.safe_load(files["prometheus.yaml"])
    [job] = [it for it in config["scrape_configs"] if it["job_name"] == "kilocard-engine"]
    job["static_configs"].append({"targets": [_place(engine)], "labels": {"pool": "by itself"}})
    return {**files, "prometheus.yaml": yaml.safe_dump(config)}


def of_engine(rows: Sequence[Mapping[str, Any]], engine: Engine) -> list[Mapping[str, Any]]:
    """Those of one engine."""
    return [row for row in rows if row["metric"].get("instance") == _place(engine)]


def _place(engine: Engine) -> str:
    return engine.url.partition("://")[2]


def minds_broken(files: Mapping[str, str], name: str) -> bool:
    """Whether the tests find out that an alert's rule never fires any more."""
    rules = yaml.safe_load(files["rules.yaml"])
    for group in rules["groups"]:
        for rule in group["rules"]:
            if rule.get("alert") == name:
                rule["expr"] = f"({rule['expr']}) and on () (vector(1) == 2)"
    return any(name in fault for fault in faults_of({**files, "rules.yaml": yaml.safe_dump(rules)}))


def shown(rows: Sequence[Mapping[str, Any]]) -> str:
    """One of the rows: its labels that tell it apart, and its value."""
    if not rows:
        return ""
    kept = {k: v for k, v in rows[0]["metric"].items() if k in ("pool", "replica", "priority", "instance")}
    labels = ", ".join(f"{name}={value}" for name, value in kept.items())
    return f"{labels}: {float(rows[0]['value'][1]):.3g}"


def expected_s(spec: ClusterSpec, scrape_s: float) -> float:
    """Seconds from a fault to its alert: until it is in the mean, scraped, evaluated, and held."""
    return ROLLING_S + scrape_s + EVALUATION_S + spec.alerts.for_s


def why(took_s: float, expected: float) -> str:
    """In a sentence."""
    if took_s <= 1.5 * expected:
        return "Each part is what it was thought to be."
    return (
        "The rest is the gateway's doing: it sends a slow engine less, so answers from it, which alone move "
        "its mean, come seldom."
    )
