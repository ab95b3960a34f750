"""The built pages as a reader meets them: at home in a browser, on a phone, by day and by night."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from conftest import Visit

pytestmark = pytest.mark.browser

PHONE_PX = 390


def test_no_request_leaves_the_site(visits: list[Visit]) -> None:
    assert {visit.page: visit.elsewhere for visit in visits if visit.elsewhere} == {}


def test_nothing_is_missing_and_the_console_is_silent(visits: list[Visit]) -> None:
    assert {
        visit.page: visit.failed + visit.console for visit in visits if visit.failed or visit.console
    } == {}


def test_no_page_is_wider_than_a_phone(visits: list[Visit]) -> None:
    assert {visit.page: (visit.width_px, visit.widest) for visit in visits if visit.width_px > PHONE_PX} == {}


def test_every_formula_is_set(visits: list[Visit]) -> None:
    assert {visit.page: visit.formula_faults for visit in visits if visit.formula_faults} == {}


def test_every_picture_has_a_name(visits: list[Visit]) -> None:
    assert {visit.page: visit.nameless_pictures for visit in visits if visit.nameless_pictures} == {}


def test_pages_follow_light_and_dark(visits: list[Visit]) -> None:
    for visit in visits:
        assert _brightness(visit.background["light"]) > 200, visit.page
        assert _brightness(visit.background["dark"]) < 60, visit.page


def test_the_figures_that_move_do_move(
    browser: Browser, origin: str, names: list[str], built_site: Path
) -> None:
    page = browser.new_page()
    with_sliders = [name for name in names if "kc-interactive" in (built_site / name).read_text()]
    moved = sum(_move_figures(page, f"{origin}/{name}") for name in with_sliders)
    page.close()
    assert moved, "the book has no figure with a slider"


def test_a_search_finds_its_pages(browser: Browser, origin: str) -> None:
    page = browser.new_page()
    errors: list[str] = []
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.goto(f"{origin}/search.html?q=card", wait_until="load")
    page.wait_for_selector("#search-results li a")
    page.wait_for_timeout(300)
    results = page.locator("#search-results li a").all_inner_texts()
    page.close()
    assert results
    assert errors == []


def test_the_front_door_leads_to_the_landing_page(browser: Browser, origin: str) -> None:
    page = browser.new_page()
    page.goto(f"{origin}/index.html")
    page.wait_for_url("**/book/index.html")
    assert page.locator("article h1").inner_text().startswith("From One Card to a Thousand")
    page.close()


def _move_figures(page: Page, url: str) -> int:
    """Step every slider of a page by the keyboard: each must change what its figure says."""
    page.goto(url, wait_until="load")
    sliders = page.locator(".kc-interactive input[type=range]")
    for number in range(sliders.count()):
        slider = sliders.nth(number)
        readout = slider.locator("xpath=ancestor::*[contains(@class,'kc-interactive')]").locator(
            ".kc-readout"
        )
        before = readout.inner_text()
        at_end = slider.evaluate("(input) => input.value === input.max")
        slider.press("ArrowLeft" if at_end else "ArrowRight")
        assert readout.inner_text() != before, f"{url}: slider {number} changes nothing"
    return sliders.count()


def _brightness(colour: str) -> float:
    red, green, blue = (float(part) for part in colour.split("(")[1].rstrip(")").split(",")[:3])
    return (red + green + blue) / 3
