"""A figure carries its title, its words for a screen reader, its kind, and the page's colours."""

import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import pytest

from kilocard.notebook import style
from kilocard.record import Kind


@pytest.fixture
def shown(monkeypatch):
    """The HTML of everything that is displayed."""
    pages: list[str] = []
    monkeypatch.setattr(style, "display", lambda thing: pages.append(thing.data))
    return pages


def draw(shown, **more):
    with style.look():
        figure, axes = plt.subplots()
        axes.plot([1, 2], [3, 4], **style.line(Kind.MEASURED, style.DECODE))
        axes.set_xlabel("Requests & more")
        style.show(
            figure, **{"title": "See <this>", "alt": 'From "3" to 4', "stamp": "measured · box", **more}
        )
    return shown[-1]


def test_figure_is_well_formed_and_carries_title_alt_and_stamp(shown):
    figure = ElementTree.fromstring(draw(shown))
    svg = figure.find("{http://www.w3.org/2000/svg}svg")
    assert figure.find("figcaption").text == "See <this>"
    assert svg.get("role") == "img" and svg.get("aria-label") == 'From "3" to 4'
    assert figure.find("div").text == "measured · box"


def test_figure_follows_the_page_and_leaks_no_style_or_identifier(shown):
    page = draw(shown)
    assert "var(--kc-decode, #0072b2)" in page and "var(--kc-ink, #1f2328)" in page
    assert not re.search(r"(?<!, )#0072b2", page), "a colour that the dark page cannot change"
    assert "<style" not in page and '<g id="' not in page and "DejaVu" not in page


def test_same_figure_same_bytes(shown):
    assert draw(shown) == draw(shown)


def test_every_kind_is_drawn_in_its_own_way():
    looks = [tuple(sorted((key, str(value)) for key, value in look.items())) for look in style.LINE.values()]
    assert set(style.LINE) == set(Kind)
    assert len(set(looks)) == len(Kind)
