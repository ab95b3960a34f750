"""A real browser over the built site: from the disk, and from a server under a sub-path."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kilocard.notebook.look import chromium, content_pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURES = Path(__file__).parents[2] / "_build" / "screenshots"
PHONE_PX = 390


@dataclass(slots=True)
class Visit:
    """What a browser met on one page."""

    page: str
    elsewhere: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    width_px: int = 0
    widest: str = ""
    formula_faults: list[str] = field(default_factory=list)
    nameless_pictures: list[str] = field(default_factory=list)
    background: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def server(built_site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=built_site.parent)) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/{built_site.name}"
        running.shutdown()
        thread.join()


@pytest.fixture(scope="session", params=["disk", "server"])
def origin(request: pytest.FixtureRequest, built_site: Path) -> str:
    return built_site.as_uri() if request.param == "disk" else request.getfixturevalue("server")


@pytest.fixture(scope="session")
def names(built_site: Path) -> list[str]:
    return [path.relative_to(built_site).as_posix() for path in content_pages(built_site)]


@pytest.fixture(scope="session")
def visits(browser: Browser, origin: str, names: list[str]) -> list[Visit]:
    PICTURES.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": PHONE_PX, "height": 844})
    found = [_visit(context.new_page(), origin, name) for name in names]
    context.close()
    return found


def _visit(page: Page, origin: str, name: str) -> Visit:
    visit = Visit(name)
    page.on("request", lambda request: _note_request(visit, request.url, origin))
    page.on("requestfailed", lambda request: visit.failed.append(request.url))
    page.on("response", lambda answer: visit.failed.append(answer.url) if answer.status >= 400 else None)
    page.on(
        "console", lambda line: visit.console.append(line.text) if line.type in {"error", "warning"} else None
    )
    page.on("pageerror", lambda error: visit.console.append(str(error)))
    page.emulate_media(color_scheme="light")
    page.goto(f"{origin}/{name}", wait_until="load")
    page.wait_for_function("!window.MathJax || (MathJax.startup && MathJax.startup.document)")
    page.evaluate("window.MathJax && MathJax.startup.promise")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=scheme)
        visit.background[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        if origin.startswith("file:"):
            picture = f"{name.removesuffix('.html').replace('/', '-')}-{scheme}.png"
            page.screenshot(path=PICTURES / picture, full_page=True)
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    visit.width_px = page.evaluate("document.scrollingElement.scrollWidth")
    visit.widest = page.evaluate(WIDEST)
    visit.formula_faults = page.evaluate(FORMULA_FAULTS)
    visit.nameless_pictures = page.evaluate(NAMELESS_PICTURES)
    page.close()
    return visit


def _note_request(visit: Visit, url: str, origin: str) -> None:
    if not url.startswith((origin, "data:", "blob:")):
        visit.elsewhere.append(url)


WIDEST = """() => {
  const sticking = [...document.querySelectorAll('.bd-article *')]
    .filter((tag) => tag.getBoundingClientRect().right > innerWidth + 1)
    .map((tag) => `${tag.tagName}.${tag.className}`);
  return sticking.slice(0, 3).join(', ');
}"""

FORMULA_FAULTS = """() =>
  [...document.querySelectorAll('mjx-merror, [data-mml-node=merror], [data-mjx-error]')]
  .map((fault) => fault.getAttribute('data-mjx-error') || fault.textContent)"""

NAMELESS_PICTURES = """() =>
  [...document.querySelectorAll('.bd-article img, .bd-article svg, .bd-article [role=img]')]
  .filter((picture) => !picture.closest('[aria-hidden=true], mjx-container, button, a.headerlink'))
  .filter((picture) => !picture.parentElement.closest('svg'))
  .filter((picture) => !(picture.alt || picture.getAttribute('aria-label') || picture.querySelector('title')))
  .map((picture) => picture.outerHTML.slice(0, 160))"""
