"""The built site: whole, self-contained, and without a dead end."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

from kilocard.notebook.chapters import page_paths
from kilocard.notebook.look import content_pages

pytestmark = pytest.mark.book

ROOT = Path(__file__).parents[2]


@cache
def parsed(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(path: Path) -> frozenset[str]:
    return frozenset(tag.get("id") or tag.get("name") for tag in parsed(path).select("[id], a[name]"))


def test_every_page_of_the_contents_is_built(built_site: Path) -> None:
    wanted = {built_site / page.with_suffix(".html") for page in page_paths(ROOT)}
    assert wanted == set(content_pages(built_site))
    assert (built_site / "index.html").is_file()


def test_no_page_is_an_orphan() -> None:
    written = {
        path.relative_to(ROOT)
        for folder in ("book", "notebooks")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".md", ".ipynb"} and not {"_static", ".ipynb_checkpoints"} & set(path.parts)
    }
    assert written == set(page_paths(ROOT))


def test_nothing_is_loaded_from_elsewhere(built_site: Path) -> None:
    for page in built_site.rglob("*.html"):
        for tag in parsed(page).select(
            "script[src], img[src], iframe[src], source[src], video[src], link[href]"
        ):
            target = tag.get("src") or tag.get("href")
            loads = tag.name != "link" or "canonical" not in (tag.get("rel") or [])
            assert not (loads and re.match(r"(https?:)?//", target)), f"{page.name} loads {target}"
    for sheet in built_site.rglob("*.css"):
        remote = re.search(
            r"(?:url\(|@import\s+)[\"']?(?:https?:)?//[^)\"']+", sheet.read_text(encoding="utf-8")
        )
        assert not remote, f"{sheet.name} loads {remote}"


def test_every_local_link_leads_somewhere(built_site: Path) -> None:
    dead = set()
    for page in content_pages(built_site):
        for tag in parsed(page).select("a[href], img[src], link[href], script[src]"):
            target = urlsplit(tag.get("href") or tag.get("src"))
            if target.scheme or target.netloc:
                continue
            file = (page.parent / unquote(target.path)).resolve() if target.path else page
            if not file.is_file():
                dead.add(f"{page.relative_to(built_site)} -> {target.path}")
            elif target.fragment and file.suffix == ".html" and unquote(target.fragment) not in anchors(file):
                dead.add(f"{page.relative_to(built_site)} -> {target.path}#{target.fragment}")
    assert not dead


def test_no_page_shows_a_traceback(built_site: Path) -> None:
    faulty = [
        page.name
        for page in content_pages(built_site)
        if "Traceback (most recent call last)" in page.read_text()
    ]
    assert not faulty


def test_every_picture_has_its_text(built_site: Path) -> None:
    for page in content_pages(built_site):
        article = parsed(page).select_one("article.bd-article")
        for image in article.select("img"):
            alt = image.get("alt", "")
            assert len(alt) > 5 and not re.search(r"[0-9a-f]{32}", alt), f"{page.name}: {image}"
        for svg in article.select("svg"):
            if svg.find_parent("svg") or svg.find_parent(attrs={"aria-hidden": "true"}):
                continue
            named = svg.get("aria-label") or svg.get("aria-hidden") == "true" or svg.find("title")
            assert named, f"{page.name}: {str(svg)[:200]}"


def test_nothing_was_left_unrendered(built_site: Path) -> None:
    for page in content_pages(built_site):
        article = parsed.__wrapped__(page).select_one("article.bd-article")
        for block in article.select("pre, code, script, style"):
            block.extract()
        raw = re.search(
            r"\{(ref|doc|term|numref|glue:\w+|eq)\}`|^:::+|\]\([^)]*\.(md|ipynb)\)",
            article.text,
            re.MULTILINE,
        )
        assert not raw, f"{page.name} shows {raw}"
