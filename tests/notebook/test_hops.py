"""What a hop adds, by difference; tried with emulated engines."""

from __future__ import annotations

import pytest

from kilocard.emulator import emulated
from kilocard.gateway.process import gateway_over
from kilocard.notebook.hops import added_s, by_hops, ladder, own_answer_s
from kilocard.specs import case_from

CASE = case_from(
    {
        "model": "llama-3.1-8b",
        "card": "h100-sxm",
        "workload": {"requests": 1, "rate_per_s": 1, "prompt_tokens": 16, "output_tokens": 8},
    }
)


def test_a_difference_is_taken_round_by_round() -> None:
    assert added_s([1.1, 2.1, 3.1], [1.0, 2.0, 3.0]) == pytest.approx((0.1, 0.1, 0.1))
    slower_box = added_s([1.0, 5.0, 9.0], [1.1, 4.9, 8.8])
    assert slower_box.median_s == pytest.approx(0.1) and not slower_box.is_seen


def test_a_way_is_compared_with_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    medians = {"direct": (1.0, 2.0, 3.0), "one": (1.5, 2.5, 3.5), "two": (1.6, 2.6, 3.6)}
    monkeypatch.setattr("kilocard.notebook.hops.by_hops", lambda urls, model: medians)
    direct, one, two = ladder(dict.fromkeys(medians, ""), "m")
    assert (direct.way, direct.ttft_s, direct.added) == ("direct", 2.0, None)
    assert one.added and one.added.median_s == pytest.approx(0.5)
    assert two.added and two.added.median_s == pytest.approx(0.1)


def test_each_hop_is_asked_in_each_round() -> None:
    with emulated(CASE) as engines:
        pool = {"name": "chat", "replicas": engines.urls}
        with gateway_over({"name": "door", "model": engines.model, "pools": [pool]}) as door:
            urls = {"engine": engines.url, "gateway": door.url}
            found = by_hops(urls, engines.model, rounds=2, requests=2)
            assert own_answer_s(door.url, 3) > 0
    assert {name: len(medians) for name, medians in found.items()} == {"engine": 2, "gateway": 2}
    assert all(seconds > 0 for medians in found.values() for seconds in medians)
