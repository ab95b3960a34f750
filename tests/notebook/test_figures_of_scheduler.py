"""Timelines, strips and pairs: what they say in words is what the numbers say."""

import numpy as np
import pytest

from kilocard.engine_model.step_time import StepTime
from kilocard.engine_model.watch import watch
from kilocard.notebook import figures, style
from kilocard.notebook.figures import strips
from kilocard.specs.case import EngineSettings
from kilocard.workload import Fixed, Workload

COSTS = StepTime(0.010 + 0.001 * np.arange(2049), 0.0, 0.0, 0.0, 0.0)


@pytest.fixture
def shown(monkeypatch):
    pages: list[str] = []
    monkeypatch.setattr(style, "display", lambda thing: pages.append(thing.data))
    return pages


def watched(requests, **settings):
    chosen = {"max_num_seqs": 8, "max_num_batched_tokens": 16, "block_size": 4, "async_scheduling": False}
    asked = Workload(requests, Fixed(6), Fixed(8)).draw()
    return watch(asked, EngineSettings(**chosen, enable_prefix_caching=False, **settings), COSTS)


def test_timeline_tells_each_requests_steps(shown):
    figures.timeline_figure(watched(2), title="t", stamp="simulated")
    assert "request 1: prefill 1, decode 7; request 2: prefill 1, decode 7." in shown[0]
    assert "thrown out" not in shown[0]


def test_timeline_tells_a_preempted_request_from_one_that_waits(shown):
    crowded = watched(5, kv_blocks=8)
    figures.timeline_figure(crowded, title="t", stamp="simulated", kv=True)
    assert "thrown out, waiting" in shown[0] and "request 5: waiting" in shown[0]
    assert "At most 8 of 8 KV blocks in use." in shown[0]


def test_timeline_in_time_has_milliseconds(shown):
    figures.timeline_figure(watched(2), title="t", stamp="simulated", in_time=True)
    assert "Milliseconds" in shown[0]


def test_strips_tell_peak_and_preemptions(shown):
    crowded = watched(5, kv_blocks=8)
    figures.kv_strips_figure({"crowd": crowded.run}, title="t", stamp="simulated")
    assert f"100 % at most, {crowded.preemptions} requests thrown out" in shown[0]


def test_pairs_tell_the_error_with_its_sign(shown):
    assert figures.error_percent(9.0, 10.0) == pytest.approx(-10)
    figures.pairs_figure({"all": (12.0, 10.0)}, title="t", x_label="s", stamp="measured")
    assert "all: simulated 12, measured 10, off by +20 %" in shown[0]


def test_pairs_know_no_negative_zero(shown):
    figures.pairs_figure({"all": (9.99, 10.0)}, title="t", x_label="s", stamp="measured")
    assert "off by +0 %" in shown[0]


def test_a_long_run_is_drawn_by_its_peaks(shown):
    t = np.arange(10_000.0)
    drawn, peaks = strips._peaks(t, np.where(t == 5_003, 100.0, 1.0))
    assert len(drawn) == len(peaks) == strips.MOST_POINTS and peaks.max() == 100.0
    drawn, _ = strips._peaks(t[:7], t[:7])
    assert drawn.tolist() == t[:7].tolist()
