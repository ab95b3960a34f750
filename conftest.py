"""Order of the suite, one engine for the notebooks, and what this box has to leave out."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kilocard.deploy import haproxy_process
from kilocard.deploy.haproxy_process import haproxy_path
from kilocard.launch.model_files import torch_cache
from kilocard.notebook.chapters import chapters
from kilocard.notebook.look import INSTALL, browser_path

if TYPE_CHECKING:
    from kilocard.launch import Engine

ROOT = Path(__file__).parent
_ENGINE = ExitStack()
_LEFT_OUT = pytest.StashKey[list[str]]()
_RUNNING = pytest.StashKey["Engine | None"]()


def pytest_configure(config: pytest.Config) -> None:
    # A job in the background ignores interrupts, one under nohup hang-ups, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    os.environ.update({**torch_cache(), **os.environ})
    config.stash[_LEFT_OUT] = []
    config.stash[_RUNNING] = None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Laws first, then engines, the notebooks, the pages, the browser; without what this box cannot run."""
    items.sort(key=_place)
    for item in items:
        if _place(item) > 0:
            item.add_marker("alone")
    if browser_path() is None and not os.environ.get("CI"):
        _leave_out(
            config,
            items,
            [item for item in items if item.get_closest_marker("browser")],
            "browser tests",
            INSTALL,
        )
    if haproxy_path() is None and not os.environ.get("CI"):
        without = [item for item in items if item.get_closest_marker("haproxy")]
        _leave_out(config, items, without, "tests with HAProxy", haproxy_process.INSTALL)
    if not _has_engine():
        without = [
            item for item in items if item.get_closest_marker("engine") or _notebook_needs_engine(item)
        ]
        _leave_out(
            config, items, without, "tests with a real engine", "set KILOCARD_ENGINE_URL to one that runs"
        )
    elif without := [item for item in items if item.get_closest_marker("two_ranks") and not _has_two_ranks()]:
        _leave_out(config, items, without, "tests with two ranks", "take a box with two cards, or two cores")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before a notebook's first cell: the reader's environment, and the engine that all of them share."""
    if not _is_cell(item):
        return
    from kilocard.notebook.execute import kernel_environment

    if "KILOCARD_MEASURED" not in os.environ:
        os.environ.update(kernel_environment(ROOT, in_place=False))
        os.environ["KILOCARD_MEASURED"] = str(ROOT / "_build" / "test" / "measured")
        os.environ.pop("MPLBACKEND", None)
    if _notebook_needs_engine(item):
        _engine_of(item.config)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The engine goes as soon as nothing later can ask for it."""
    if _place(item) == 2 and not (nextitem and _place(nextitem) == 2):
        os.environ.pop("KILOCARD_MEASURED", None)
        _ENGINE.close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    _ENGINE.close()
    if (told := getattr(session.config, "workeroutput", None)) is not None:
        told["left_out"] = session.config.stash[_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What one of two workers leaves out, the other does too: it is told once."""
    known = node.config.stash[_LEFT_OUT]
    known += [line for line in getattr(node, "workeroutput", {}).get("left_out", ()) if line not in known]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[_LEFT_OUT]:
        terminalreporter.section("LEFT OUT on this box", yellow=True, bold=True)
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def book_engine(request: pytest.FixtureRequest) -> Engine:
    """The notebooks' engine, for tests that come right before them."""
    return _engine_of(request.config)


@pytest.fixture(scope="session")
def built_site() -> Iterator[Path]:
    """The folder of the site, built strictly from the stored outputs."""
    from kilocard.notebook.site import build_site

    yield build_site(ROOT, ROOT / "_build" / "test" / "html").parent


def _engine_of(config: pytest.Config) -> Engine:
    from kilocard.launch import default_spec, launch

    engine = config.stash[_RUNNING]
    if engine is None:
        engine = config.stash[_RUNNING] = _ENGINE.enter_context(launch(default_spec()))
    return engine


def _place(item: pytest.Item) -> int:
    if _is_cell(item) or "book_engine" in getattr(item, "fixturenames", ()):
        return 2
    for place, marker in ((1, "engine"), (3, "book"), (4, "browser")):
        if item.get_closest_marker(marker):
            return place
    return 0


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], without: list[pytest.Item], what: str, way_out: str
) -> None:
    if not without:
        return
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if item not in set(without)]
    config.stash[_LEFT_OUT].append(f"{len(without)} {what}. To run them: {way_out}")


def _is_cell(item: pytest.Item) -> bool:
    return item.path.suffix == ".ipynb"


@cache
def _engine_notebooks() -> frozenset[Path]:
    return frozenset(ROOT / chapter.path for chapter in chapters(ROOT) if chapter.needs_engine)


def _notebook_needs_engine(item: pytest.Item) -> bool:
    return _is_cell(item) and item.path in _engine_notebooks()


@cache
def _has_two_ranks() -> bool:
    from kilocard.launch.replicas import most_ranks

    return most_ranks() >= 2


def _has_engine() -> bool:
    from kilocard.notebook.execute import has_engine

    return has_engine()
