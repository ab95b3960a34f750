"""`kilocard doctor`: whether this box can run the book and its engines, and what to do where it cannot."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable
from dataclasses import asdict
from importlib import metadata
from typing import Annotated

import psutil
import typer

from kilocard.box import Cards, describe_box, read_cards
from kilocard.cli.check import Check, State, judged
from kilocard.cli.doctor_network import listen, network
from kilocard.cli.doctor_tools import book_tools
from kilocard.cli.doctor_topology import said, topology
from kilocard.cli.output import plain, print_json
from kilocard.errors import KilocardError
from kilocard.launch import elsewhere, ports, strays
from kilocard.launch.command import Build, Flavour, find_build
from kilocard.launch.model_files import FOLDER_NAME, cache_dir, is_intact
from kilocard.launch.process import usable_cores

GB, GIB = 10**9, 2**30
MODEL_BYTES = 10**9
"""What fetching and converting the embedded model takes at its peak."""
ENGINE_GIB = 3.0
"""Memory of the embedded engine: 2.2 GiB of engine core with 1 GiB of KV cache, 0.7 of API server."""
CLASHING = ("torchvision", "torchaudio", "torchcodec")


def register(app: typer.Typer) -> None:
    """Add the command: alone it checks this box, and with a word more it tests the network."""
    doctor = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
    doctor.callback()(run_doctor)
    doctor.command("listen")(listen)
    doctor.command("network")(network)
    app.add_typer(doctor, name="doctor")


def run_doctor(
    asked: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    ranks: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Ranks to give cores to; default: the cards, or 2 without cards."),
    ] = None,
) -> None:
    """Check this box for the book and its engines, and say what its wiring means and what to change."""
    if asked.invoked_subcommand:
        return
    cards = read_cards()
    checks, wiring = look(cards), topology(ranks, cards.failure if cards.hung else "")
    usable = all(check.state is not State.FAIL for check in checks)
    if as_json:
        print_json(
            {
                "usable": usable,
                "box": describe_box(cards),
                "checks": [asdict(check) for check in checks],
                "topology": wiring,
            }
        )
    else:
        print(plain("\n".join(map(str, checks))))
        print(f"\n{said(wiring)}\n")
        print("this box is usable" if usable else "this box is not usable yet: mend what says fail")
    raise typer.Exit(0 if usable else 1)


def look(cards: Cards) -> list[Check]:
    """Every check, in the order of the way from the box to the book."""
    build, build_check = _build()
    return [
        _python(),
        build_check,
        *_libraries(build),
        _cores(),
        _memory(),
        _disk(),
        _shared_memory(),
        _port(),
        _cards(build, cards),
        _engine_elsewhere(),
        _leftovers(),
        _model(),
        *book_tools(),
    ]


def _python() -> Check:
    found = f"{platform.python_version()} on {platform.system()}"
    if sys.platform != "linux":
        return Check(
            "python", State.FAIL, found, "engines are launched on Linux only; set KILOCARD_ENGINE_URL"
        )
    state = State.OK if sys.version_info >= (3, 11) else State.FAIL
    return Check("python", state, found, "" if state is State.OK else "install Python 3.11 or newer")


def _build() -> tuple[Build | None, Check]:
    try:
        build = find_build()
    except KilocardError as error:
        return None, Check("vllm", State.FAIL, "none that this box can run", str(error))
    torch = _version("torch") or "none"
    found = f"{build.version} ({build.flavour.value.upper()} build), torch {torch}"
    if torch == "none":
        return build, Check("vllm", State.FAIL, found, "install the requirements again: torch is missing")
    return build, Check("vllm", State.OK, found)


def _libraries(build: Build | None) -> Iterable[Check]:
    if build is None or build.flavour is not Flavour.CPU:
        return
    clashing = [name for name in CLASHING if _version(name)]
    yield judged(
        "torch extras",
        not clashing,
        ", ".join(clashing) or "none, as it should be",
        f"they break transformers beside this torch: pip uninstall {' '.join(clashing)}",
        State.FAIL,
    )
    if platform.machine() in ("x86_64", "AMD64"):
        openmp = next((name for name in build.preload if "libiomp5" in name), "")
        advice = "engines run slower: install requirements-cpu.txt again (intel-openmp)"
        yield judged("libiomp5", bool(openmp), openmp or "missing", advice)


def _cores() -> Check:
    cores = len(usable_cores())
    advice = "engine and client share a core, so that they disturb each other's times: use 2 or more"
    return judged("cores", cores >= 2, f"{cores} usable", advice)


def _memory() -> Check:
    free = psutil.virtual_memory().available / GIB
    advice = f"the embedded engine takes about {ENGINE_GIB:.0f} GiB: close something"
    return judged("memory", free >= ENGINE_GIB, f"{free:.1f} GiB available", advice, State.FAIL)


def _disk() -> Check:
    try:
        cache = cache_dir()
        place = next(path for path in (cache, *cache.parents) if path.exists())
        free = shutil.disk_usage(place).free
    except (KilocardError, OSError) as error:
        return Check("disk", State.FAIL, "no place for the cache", str(error))
    needed = 0 if is_intact(cache / FOLDER_NAME) else MODEL_BYTES
    advice = f"the model takes {MODEL_BYTES / GB:.0f} GB: free some, or name another disk in KILOCARD_CACHE"
    writable = place.is_dir() and os.access(place, os.W_OK)
    if not writable:
        advice = f"{place} is no folder to write in: name another place in KILOCARD_CACHE"
    found = f"{free / GB:.1f} GB free for {cache}"
    return judged("disk", writable and free >= needed, found, advice, State.FAIL)


def _shared_memory() -> Check:
    try:
        size = shutil.disk_usage("/dev/shm").total / GIB
    except OSError:
        return Check(
            "shared memory", State.WARN, "no /dev/shm", "tensor parallel ranks need it: mount a tmpfs"
        )
    advice = "tensor parallel ranks need more: mount /dev/shm with 1 GiB or more (docker: --shm-size)"
    return judged("shared memory", size >= 1, f"/dev/shm of {size:.1f} GiB", advice)


def _port() -> Check:
    try:
        for held in ports.reserved_port(0):
            held.close()
    except KilocardError as error:
        return Check("ports", State.FAIL, "no port on 127.0.0.1", str(error))
    return Check("ports", State.OK, "127.0.0.1 lends free ports")


def _cards(build: Build | None, cards: Cards) -> Check:
    if cards.failure:
        advice = "engines find no card: run `nvidia-smi` yourself, and mend the driver or its container"
        return Check("cards", State.WARN, cards.failure, advice)
    if not cards.listed:
        return Check("cards", State.OK, "none: engines run on the CPU")
    first = cards.listed[0]
    memory = "memory unknown" if first["memory_gib"] is None else f"{first['memory_gib']} GiB"
    found = f"{len(cards.listed)} x {first['name']}, {memory}, driver {first['driver']}"
    unused = build is not None and build.flavour is Flavour.CPU
    return judged("cards", not unused, found, "the CPU build leaves them unused: install requirements.txt")


def _engine_elsewhere() -> Check:
    try:
        if not (url := elsewhere.named_url()):
            return Check("engine elsewhere", State.OK, "none named: engines are started here")
        served = elsewhere.served_at(url)
    except KilocardError as error:
        advice = f"mend or unset {elsewhere.VARIABLE}"
        return Check("engine elsewhere", State.FAIL, str(error), advice)
    return Check("engine elsewhere", State.OK, f"{url} serves {served.name}")


def _leftovers() -> Check:
    left = strays.strays()
    found = f"processes {', '.join(map(str, left))} of an engine whose guard was killed"
    return judged("leftovers", not left, found if left else "none", "the next engine start ends them")


def _model() -> Check:
    try:
        folder = cache_dir() / FOLDER_NAME
        damaged = folder.exists()
    except (KilocardError, OSError):
        return Check("model", State.WARN, "no place for it", "see disk")
    if is_intact(folder):
        return Check("model", State.OK, f"{folder}, checksums right")
    if damaged:
        advice = f"delete {folder}: it is made again at the next start"
        return Check("model", State.FAIL, f"{folder} is damaged", advice)
    return Check("model", State.OK, "not made yet: fetched (93 MB) and converted at the first start")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
