"""Pictures of the built pages, for a person's review: wide and phone, light and dark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kilocard.errors import KilocardError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDTHS_PX = {"wide": 1280, "phone": 390}
SCHEMES = ("light", "dark")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "sudo apt-get install --no-install-recommends chromium fonts-noto-cjk"
# Without these a browser calls home at its start; as root it refuses to run in its sandbox.
_FLAGS = (
    "--no-sandbox",
    "--disable-quic",
    "--disable-sync",
    "--disable-component-update",
    "--disable-background-networking",
)


def browser_path() -> str | None:
    """A Chromium of this system, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium that makes no request of its own."""
    from playwright.sync_api import sync_playwright

    path = browser_path()
    if path is None:
        raise KilocardError(f"no Chromium on this box: {INSTALL}")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def picture_pages(html: Path, into: Path) -> list[Path]:
    """A full-length PNG of every page of the site in `html`, at each width and colour scheme."""
    into.mkdir(parents=True, exist_ok=True)
    pictures = []
    with chromium() as browser:
        for width_name, width_px in WIDTHS_PX.items():
            for scheme in SCHEMES:
                context = browser.new_context(
                    viewport={"width": width_px, "height": 900},
                    color_scheme="dark" if scheme == "dark" else "light",
                )
                page = context.new_page()
                for path in content_pages(html):
                    page.goto(path.as_uri(), wait_until="load")
                    page.wait_for_timeout(300)
                    picture = into / f"{path.relative_to(html).with_suffix('').as_posix().replace('/', '-')}"
                    picture = picture.with_name(f"{picture.name}-{width_name}-{scheme}.png")
                    page.screenshot(path=picture, full_page=True)
                    pictures.append(picture)
                context.close()
    return pictures


def content_pages(html: Path) -> list[Path]:
    """The pages that a reader reads: no index of terms, no search form, no redirect."""
    return sorted(
        path
        for path in html.rglob("*.html")
        if path.name not in {"genindex.html", "search.html"}
        and "_static" not in path.parts
        and path != html / "index.html"
    )
