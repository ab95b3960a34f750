"""A start and a request, taken apart."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kilocard.errors import KilocardError
from kilocard.notebook.stations import share, start_stations

LOG = """
(APIServer pid=1) INFO 12-01 23:59:50 [api_utils.py:286] non-default args: {'host': '127.0.0.1'}
(EngineCore pid=2) INFO 12-01 23:59:56 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config
(EngineCore pid=2) INFO 12-01 23:59:56 [cpu_model_runner.py:68] Starting to load model m...
(EngineCore pid=2) INFO 12-01 23:59:57 [default_loader.py:501] Loading weights took 0.75 seconds
(EngineCore pid=2) INFO 12-01 23:59:58 [core.py:402] init engine (profile, create kv cache) took 0.25 s
(APIServer pid=1) INFO 12-02 00:00:00 [launcher.py:46] Route: /health
INFO:     Application startup complete.
"""


def test_the_parts_of_a_start_are_its_whole_past_midnight_too() -> None:
    parts = start_stations(LOG, 16.0, 1.0)
    assert [part.seconds for part in parts] == pytest.approx([5.0, 6.0, 0.0, 0.75, 0.25, 3.0, 1.0])
    for before, after in pairwise(parts):
        assert before.begin_s + before.seconds == pytest.approx(after.begin_s)
    assert share(parts, "weights") == pytest.approx(0.75 / 16)


def test_without_exact_seconds_the_whole_ones_are_told() -> None:
    vague = LOG.replace("took 0.75 seconds", "took some time: Loading weights took a while")
    assert [part.seconds for part in start_stations(vague, 16.0, 1.0)][3] == pytest.approx(1.0)


def test_a_log_of_no_start_is_told() -> None:
    with pytest.raises(KilocardError, match="this log tells of no start"):
        start_stations("INFO 12-01 23:59:50 nothing", 1.0, 0.1)
