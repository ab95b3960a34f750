"""A real engine to talk to: found, shared or started, ready when it answers, and gone without a trace."""

from __future__ import annotations

import contextlib
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kilocard import __version__
from kilocard.errors import KilocardError
from kilocard.launch import elsewhere, share, web
from kilocard.launch.command import (
    Build,
    Command,
    Flavour,
    NoBuildError,
    build_command,
    find_build,
    refuse_layout,
    served_name,
)
from kilocard.launch.engine import Engine, stop_all
from kilocard.launch.model_files import cache_dir, model_folder
from kilocard.launch.place import ANYWHERE, Place, check_cores
from kilocard.launch.stand_in import StandIn
from kilocard.specs.engine import EMBEDDED_MODEL, EngineSpec

Say = Callable[[str], None]
DRAIN_S = 10.0
READY_TIMEOUT_S = 1800.0
READ_EMULATED = "Until then the engine here is EMULATED: where the text says measured, read emulated"


def default_spec(model: str | None = None) -> EngineSpec:
    """The book's engine: the embedded model with 1 GiB of KV cache, or what KILOCARD_MODEL names."""
    model = model or os.environ.get("KILOCARD_MODEL") or EMBEDDED_MODEL
    spec = EngineSpec(model=model, max_model_len=4096, max_num_seqs=32)
    return spec.model_copy(update={"kv_cache_memory_bytes": 2**30}) if spec.is_embedded else spec


@contextmanager
def launch(spec: EngineSpec | None = None, **options: Any) -> Iterator[Engine]:
    """An engine for the length of a with-block; the options are those of `start`."""
    engine = start(spec, **options)
    try:
        yield engine
    finally:
        engine.stop()


def start(
    spec: EngineSpec | None = None,
    *,
    port: int = 0,
    say: Say | None = None,
    drain_s: float = DRAIN_S,
    ready_timeout_s: float = READY_TIMEOUT_S,
    command: Command | None = None,
    stand_in: bool = True,
    cores: Sequence[int] = (),
) -> Engine:
    """An engine that has answered a completion: named by KILOCARD_ENGINE_URL, shared, or started.

    Where no vLLM is installed that runs here, an emulated one stands in and says so, unless that is not
    wanted. It is held until `stop()`, until nothing refers to it, or until this process ends, however it
    does. `port` 0 takes a free one. `cores` are the only ones that its processes may use: two engines of one
    spec on other cores are two engines. One that runs elsewhere or is emulated knows nothing of them.
    """
    began = time.monotonic()
    check_seconds(ready_timeout_s=ready_timeout_s)
    engine = begin(
        spec or default_spec(),
        port=port,
        say=say,
        drain_s=drain_s,
        command=command,
        stand_in=stand_in,
        place=Place(cores=tuple(cores)),
    )
    await_ready([engine], began, ready_timeout_s)
    return engine


def begin(
    spec: EngineSpec,
    *,
    port: int = 0,
    say: Say | None = None,
    drain_s: float = DRAIN_S,
    command: Command | None = None,
    stand_in: bool = True,
    place: Place = ANYWHERE,
    url: str = "",
) -> Engine:
    """An engine that is found, or has begun to start; `url` instead of what KILOCARD_ENGINE_URL names."""
    check_seconds(drain_s=drain_s)
    say = say or _quiet
    if url := url or elsewhere.named_url():
        engine = _named(spec, url)
    else:
        try:
            engine = _held(spec, port, say, drain_s, command, place)
        except NoBuildError as reason:
            if not stand_in:
                raise
            engine = play(spec, port, str(reason))
    say(engine.said)
    return engine


def await_ready(engines: Sequence[Engine], began: float, timeout_s: float) -> None:
    """Wait until each has answered a completion; all are let go of where one does not."""
    try:
        waiting = list(engines)
        while waiting:
            for engine in list(waiting):
                if _completes(engine, began + timeout_s):
                    waiting.remove(engine)
                    engine.version = _version_of(engine.url) or engine.version
                    engine.ready_s = time.monotonic() - began
                    engine.started_in_s = _start_of(engine)
            if waiting:
                time.sleep(0.1)
    except BaseException:
        stop_all(engines)
        raise


def check_seconds(**spans: float) -> None:
    """An error for a span that is none."""
    for name, span in spans.items():
        if not math.isfinite(span):
            raise KilocardError(f"{name} {span} is no span of time: give a number of seconds")


def _start_of(engine: Engine) -> float | None:
    """How long this engine's start took; whoever started it left a note beside its log."""
    if engine.flavour is Flavour.EMULATED:
        return engine.ready_s
    if not engine.log_path:
        return None
    note = engine.log_path.with_suffix(".started_in_s")
    with contextlib.suppress(OSError, ValueError):
        if not engine.is_shared:
            note.write_text(f"{engine.ready_s:.2f}")
        return float(note.read_text())
    return None


def _held(
    spec: EngineSpec, port: int, say: Say, drain_s: float, command: Command | None, place: Place
) -> Engine:
    build = Build(Flavour.CPU, "") if command else find_build()
    check_cores(place.cores, usable_cores())
    command = command or command_for(spec, build, say, drain_s, place)
    log = cache_dir() / "logs" / f"engine-{command.digest}.log"
    hold = share.lease(command, port, log, drain_s)
    if port and hold.url != f"http://127.0.0.1:{port}":
        hold.leave()
        raise KilocardError(
            f"an engine with this spec runs at {hold.url}, not on port {port}: leave the port out to share it"
        )
    how = "shared with who started it" if hold.joined else "started here"
    said = f"vLLM {build.version} ({build.flavour.value.upper()} build) at {hold.url}, {how}"
    return Engine(spec, build.flavour, hold.url, build.version, said, hold)


def command_for(spec: EngineSpec, build: Build, say: Say | None, drain_s: float, place: Place) -> Command:
    """What starts this engine on this box, its model prepared."""
    refuse_layout(spec, build.flavour)
    model = model_folder(spec.model, say)
    return build_command(spec, build, model, usable_cores(), drain_s, place=place)


def play(spec: EngineSpec, port: int, reason: str) -> Engine:
    """An emulated engine in the place of one that this box has not, and a warning that says why."""
    hold = StandIn(spec, port)
    warnings.warn(f"{reason}. {READ_EMULATED}", stacklevel=4)
    said = f"no vLLM here: {hold.case.card} is EMULATED at {hold.url} ({reason})"
    engine = Engine(spec, Flavour.EMULATED, hold.url, __version__, said, hold)
    engine.maker, engine.emulated_card = "kilocard-emulator", str(hold.case.card)
    return engine


def _named(spec: EngineSpec, url: str) -> Engine:
    wanted = served_name(spec)
    served = elsewhere.served_at(url, wanted)
    known = EngineSpec(
        model=spec.model if served.name == wanted else served.name,
        served_model_name=served.name,
        max_model_len=served.max_model_len,
    )
    differs = "" if served.name == wanted else f"; it serves {served.name}, not {wanted}"
    said = f"the engine at {url}, named by KILOCARD_ENGINE_URL, with its own settings{differs}"
    engine = Engine(known, Flavour.REMOTE, url, "", said, None)
    engine.maker, engine.emulated_card = served.owner, served.card
    return engine


def _completes(engine: Engine, deadline: float) -> bool:
    engine.raise_if_dead()
    try:
        web.get_text(f"{engine.url}/health", 2.0)
        engine.complete("Ready?", max_tokens=1, timeout_s=max(deadline - time.monotonic(), 1.0))
        return True
    except (web.NoAnswerError, LookupError, TypeError) as error:
        if engine.flavour is Flavour.REMOTE:
            raise KilocardError(
                f"{engine.url} does not complete a prompt ({error}): is it an engine?"
            ) from error
        if _is_refusal(error) or time.monotonic() > deadline:
            raise engine.error("did not start", f"no completion, {error}") from error
        return False


def _is_refusal(error: Exception) -> bool:
    status = getattr(error, "status", None)
    return status is not None and 400 <= status < 500 and status != 429


def _version_of(url: str) -> str:
    with contextlib.suppress(web.NoAnswerError, LookupError, TypeError):
        return str(web.get_json(f"{url}/version")["version"])
    return ""


def usable_cores() -> list[int]:
    """The cores that this process may use, in order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _quiet(_: str) -> None:
    """Say nothing."""
