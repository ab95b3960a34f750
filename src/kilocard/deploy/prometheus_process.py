"""Prometheus itself, where it is installed: checks rules, runs their tests, scrapes, answers queries."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kilocard.children import end
from kilocard.errors import KilocardError
from kilocard.launch import web
from kilocard.processes import die_with_parent, free_ports

INSTALL = "sudo apt-get install --no-install-recommends prometheus"
START_S, STOP_S, QUERY_S = 30.0, 10.0, 10.0


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running one."""

    url: str

    def query(self, expr: str) -> list[dict[str, Any]]:
        """What an expression is now: rows of `metric` (labels) and `value` (time, text)."""
        return self._ask("query", query=expr)

    def over_time(self, expr: str, begin_s: float, end_s: float, step_s: float) -> list[dict[str, Any]]:
        """What it was, between two moments since 1970: rows of `metric` and `values`."""
        return self._ask("query_range", query=expr, start=begin_s, end=end_s, step=step_s)

    def alerts(self) -> list[dict[str, Any]]:
        """Those that are pending or firing."""
        told: list[dict[str, Any]] = web.get_json(f"{self.url}/api/v1/alerts", QUERY_S)["data"]["alerts"]
        return told

    def _ask(self, what: str, **about: Any) -> list[dict[str, Any]]:
        asked = urllib.parse.urlencode(about)
        try:
            told = web.get_json(f"{self.url}/api/v1/{what}?{asked}", QUERY_S)
        except web.NoAnswerError as error:
            raise KilocardError(f"Prometheus does not answer {about.get('query')}: {error}") from error
        rows: list[dict[str, Any]] = told["data"]["result"]
        return rows


def prometheus_path(name: str = "prometheus") -> str | None:
    """The program, or its promtool."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin")


def promtool(*words: str, folder: Path) -> str:
    """What promtool says in a folder; KilocardError with its words where it finds a fault."""
    program = prometheus_path("promtool")
    if program is None:
        raise KilocardError(f"no promtool is installed here: {INSTALL}")
    done = subprocess.run(
        [program, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise KilocardError(" ".join(f"{done.stdout} {done.stderr}".split()))
    return done.stdout


def faults_of(files: Mapping[str, str]) -> list[str]:
    """What promtool minds in rendered files and in the tests of their rules."""
    with written(files) as folder:
        found = []
        for words in (
            ("check", "config", "prometheus.yaml"),
            ("check", "rules", "rules.yaml"),
            ("test", "rules", "rules.test.yaml"),
        ):
            try:
                promtool(*words, folder=folder)
            except KilocardError as error:
                found.append(str(error))
        return found


@contextmanager
def running(files: Mapping[str, str]) -> Iterator[Prometheus]:
    """Prometheus with these files, from its readiness to the end of the block."""
    program = prometheus_path()
    if program is None:
        raise KilocardError(f"no prometheus is installed here: {INSTALL}")
    [port] = free_ports(1)
    me = os.getpid()
    with written(files) as folder, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [
                program,
                "--config.file=prometheus.yaml",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=lambda: die_with_parent(me),  # noqa: PLW1509 (it calls nothing that takes a lock)
        )
        try:
            if not _is_ready(process, f"http://127.0.0.1:{port}"):
                log.seek(0)
                told = log.read().decode(errors="replace").strip().splitlines()
                raise KilocardError(f"Prometheus does not start: {told[-1] if told else 'it says nothing'}")
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            end(process, STOP_S)


@contextmanager
def written(files: Mapping[str, str]) -> Iterator[Path]:
    """The files in a folder of their own, for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="kilocard-prometheus-") as name:
        for path, text in files.items():
            place = Path(name) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        yield Path(name)


def _is_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        try:
            web.get_text(f"{url}/-/ready", 1.0)
            return True
        except web.NoAnswerError:
            time.sleep(0.05)
    return False
