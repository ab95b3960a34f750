"""The see-saw without a kernel shows what the ledger says, at every stop of its sliders."""

import json
import re

import pytest

from kilocard.facts import card, model
from kilocard.memory import ledger
from kilocard.notebook import interactive
from kilocard.notebook.figures.ledger import CONCURRENCY, CONTEXT, KV, WEIGHTS, ledger_see_saw

LIMIT_BYTES = 300_000


@pytest.fixture
def page(monkeypatch):
    pages: list[str] = []
    monkeypatch.setattr(interactive, "display", lambda thing: pages.append(thing.data))
    ledger_see_saw(model("qwen3.8-27b"), card("k100-ai"), title="t", stamp="derived")
    return pages[0]


def test_every_setting_has_the_ledgers_numbers(page):
    data = json.loads(re.search(r'class="kc-data">(.*?)</script>', page)[1])
    assert len(data["frames"]) == len(WEIGHTS) * len(KV) * len(CONCURRENCY) * len(CONTEXT)
    for setting in ("2-0-3-2", "0-1-7-7", "1-0-0-0"):
        w, k, people, tokens = map(int, setting.split("-"))
        account = ledger("qwen3.8-27b", "k100-ai", weights=WEIGHTS[w], kv=KV[k], context=CONTEXT[tokens],
                         concurrency=CONCURRENCY[people])  # fmt: skip
        values, readout = data["frames"][setting]
        assert sum(values) == pytest.approx(account.total_bytes / 1e9, abs=0.003)
        assert readout.startswith("Fits" if account.fits else "Does not fit")
    assert data["limit"] == pytest.approx(account.usable_bytes / 1e9, abs=0.001)


def test_it_is_small_and_asks_for_nothing(page):
    assert len(page.encode()) < LIMIT_BYTES
    assert not re.search(r"https?://(?!www\.w3\.org)", page)


def test_each_slider_is_named_and_says_its_stop(page):
    inputs = re.findall(r'<input type="range" id="([^"]+)"', page)
    assert len(inputs) == 4 == len(set(inputs))
    for identifier in inputs:
        assert f'<label for="{identifier}">' in page and f'<output for="{identifier}">' in page


def test_a_slider_cannot_start_outside_its_stops():
    with pytest.raises(ValueError, match="starts at stop 2 of 2"):
        interactive.Slider("n", ("a", "b"), 2)


def test_the_first_frame_can_be_read_without_a_script(page):
    account = ledger("qwen3.8-27b", "k100-ai", weights="int4", context=4096, concurrency=8)
    said = re.search(r'class="kc-readout"[^>]*>([^<]*)<', page)[1]
    assert f"weights {account.weights_bytes / 1e9:.1f}" in said and "Fits" in said
    assert "<noscript>" in page
