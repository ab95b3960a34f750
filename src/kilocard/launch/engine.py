"""A running engine, and one process's hold on it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from kilocard import processes
from kilocard.box import describe_box
from kilocard.errors import KilocardError
from kilocard.launch import web
from kilocard.launch.command import Flavour, effective_settings, served_name
from kilocard.launch.failure import EngineError, likely_cause
from kilocard.launch.metrics import EngineMetrics, read_metrics
from kilocard.launch.ranks import rank_names
from kilocard.record.stamp import Kind, kind_of
from kilocard.specs.engine import EngineSpec


class Hold(Protocol):
    """One process's hold on an engine."""

    joined: bool

    @property
    def url(self) -> str:
        """Where it answers."""

    @property
    def log(self) -> Path | None:
        """What it writes."""

    @property
    def pid(self) -> int:
        """Its process."""

    def exit_code(self) -> int | None:
        """Once it has died by itself."""

    def leave(self) -> None:
        """Let go of it."""


LOOPBACK = ("http://127.", "http://localhost", "http://[::1]")
TAIL_LINES = 40


class Engine:
    """A running engine and this process's hold on it.

    `url` is its root, `model` the name that requests use, `said` one line on which engine it is and why.
    `ready_s` is how long this user waited for a completion, `started_in_s` how long the engine's start took,
    whoever began it (None for one that runs elsewhere).
    """

    def __init__(
        self, spec: EngineSpec, flavour: Flavour, url: str, version: str, said: str, hold: Hold | None
    ) -> None:
        self.spec = spec
        self.flavour = flavour
        self.url = url
        self.model = served_name(spec)
        self.version = version
        self.said = said
        self.maker = "vllm"
        self.emulated_card = ""
        self.ready_s = 0.0
        self.started_in_s: float | None = None
        self._hold = hold
        self._let_go = weakref.finalize(self, hold.leave) if hold else None

    def __repr__(self) -> str:
        return f"<Engine {self.url} {self.said}>"

    @property
    def log_path(self) -> Path | None:
        """Its log; null for one that runs elsewhere."""
        return self._hold.log if self._hold else None

    @property
    def card(self) -> str:
        """What it runs on, as far as can be told from here."""
        if self.kind is Kind.EMULATED or not self.url.startswith(LOOPBACK):
            return self.emulated_card or "unknown"
        box = describe_box()
        return str(box["gpus"][0]["name"] if self.flavour is not Flavour.CPU and box["gpus"] else box["cpu"])

    @property
    def is_shared(self) -> bool:
        """Whether somebody else started it."""
        return self._hold is None or self._hold.joined

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of its log; empty for one that runs elsewhere."""
        return "\n".join(self._log().splitlines()[-lines:])

    def ranks(self) -> dict[str, int]:
        """The processes of its ranks that live, by name: `{"Worker_TP0": 811, "Worker_TP1": 812}`.

        A rank without a process of its own works inside of the engine's, which is then called `Engine`.
        """
        if not self._hold:
            raise KilocardError(f"{self.url} runs elsewhere: its ranks can be seen on its own machine only")
        guard = processes.stat_fields(self._hold.pid)[1:2]
        family = {pid for parent in guard for pid in processes.descendants(int(parent))}
        living = {pid for pid in family if processes.is_running(pid)}
        named = {name: pid for pid, name in rank_names(self._log()).items() if pid in living}
        if named or self.spec.ranks > 1 or not processes.is_running(self._hold.pid):
            return dict(sorted(named.items()))
        return {"Engine": self._hold.pid}

    def _log(self) -> str:
        if not self.log_path:
            return ""
        try:
            return self.log_path.read_text(errors="replace")
        except OSError:
            return ""

    @property
    def kind(self) -> Kind:
        """What comes of it: measured, or emulated."""
        return kind_of(self.maker)

    def metrics(self) -> EngineMetrics:
        """What its /metrics page says now."""
        return read_metrics(self.url)

    def complete(self, prompt: str, max_tokens: int = 16, timeout_s: float = 120.0) -> str:
        """One real completion, without streaming."""
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        answer = web.post_json(f"{self.url}/v1/completions", body, timeout_s)
        return str(answer["choices"][0]["text"])

    def stamp_fields(self) -> dict[str, Any]:
        """The part of a `Stamp` that the engine knows."""
        return {
            "model": self.spec.model if self.spec.is_embedded else self.model,
            "engine": self.maker,
            "engine_version": self.version,
            "card": self.card,
            "layout": self.spec.layout,
            "settings": {"flavour": self.flavour.value, **effective_settings(self.spec, self.flavour)},
        }

    def wait(self, every_s: float = 0.5) -> None:
        """Block while the engine lives; an error once it has died."""
        while True:
            self.raise_if_dead("died")
            time.sleep(every_s)

    def stop(self) -> None:
        """Let go of it; where nobody else uses it, drain it and wait until nothing of it is left."""
        if self._let_go:
            self._let_go()

    def raise_if_dead(self, what: str = "did not start") -> None:
        """An error with the cause, once it has died by itself."""
        code = self._hold.exit_code() if self._hold else None
        if code is not None:
            raise self.error(what, f"exit code {code}")

    def error(self, what: str, detail: str) -> EngineError:
        """One line on what happened to it, with the likely cause in its log."""
        cause = likely_cause(self._log())
        return EngineError(f"the engine {what}: {cause} ({detail}; log: {self.log_path})", self.log_tail())


def stop_all(engines: Sequence[Engine]) -> None:
    """Let go of all of them at once, and wait until nothing is left of those that nobody else uses."""
    if len(engines) == 1:
        engines[0].stop()
    if len(engines) < 2:
        return
    with ThreadPoolExecutor(len(engines), thread_name_prefix="kilocard-stop") as threads:
        for done in [threads.submit(engine.stop) for engine in engines]:
            done.result()
