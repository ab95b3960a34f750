"""What the figures of waits and of shares say in words is what the requests say."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.notebook import figures, style
from kilocard.notebook.figures.shares import shares_of
from kilocard.record import REQUEST_COLUMNS, Kind, Run, Stamp, typed


@pytest.fixture
def shown(monkeypatch):
    pages: list[str] = []
    monkeypatch.setattr(style, "display", lambda thing: pages.append(thing.data))
    return pages


def row(number, at_s, ttft_s, priority="batch", status="ok", replica="0"):
    times = {"first_token_s": at_s + ttft_s, "last_token_s": at_s + ttft_s + 1, "output_tokens": 4}
    return {
        **{"request_id": str(number), "scheduled_s": at_s, "sent_s": at_s, "priority": priority},
        **(times if status == "ok" else {}),
        **{"status": status, "replica": replica},
    }


def test_late_and_refused_are_counted(shown):
    rows = [row(1, 0.0, 0.5), row(2, 1.0, 2.0, "interactive"), row(3, 1.0, 0, status="refused")]
    figures.waits_figure({"no cap": typed(rows, REQUEST_COLUMNS)}, title="t", limit_s=1.0, stamp="emulated")
    assert "no cap: 3 asked, 1 refused, 1 of 2 answers late" in shown[0]
    assert shown[0].index(">interactive<") < shown[0].index(">batch<") < shown[0].index(">refused<")


def test_the_share_of_each_second_and_the_moments_are_told(shown):
    stamp = Stamp(Kind.EMULATED, "m", "e", "1", "card", {"name": "b"}, "2026-11-30T00:00:00+00:00")
    rows = [row(1, 0.1, 0.1), row(2, 0.2, 0.1, replica="1"), row(3, 1.5, 0.1, replica="1")]
    figures.share_figure(
        {"even": Run.from_rows(rows, stamp)}, replica="0", title="t", marks=[(0.5, "slow")], fair=0.5
    )
    assert "even: from 0 to 50 %" in shown[0] and "slow at 0.5 s" in shown[0]


@given(st.lists(st.tuples(st.floats(0, 9), st.sampled_from(["0", "1", None])), min_size=1, max_size=40))
def test_shares_weighed_by_what_was_sent_are_the_whole_share(sent):
    table = pd.DataFrame(
        {"sent_s": [at for at, _ in sent], "replica": pd.array([r for _, r in sent], "string")}
    )
    at_s, shares = shares_of(table, "0")
    known = table[table["replica"].notna()]
    counts = [(np.floor(known["sent_s"]) == at - 0.5).sum() for at in at_s]
    assert ((shares >= 0) & (shares <= 1)).all()
    assert float(np.dot(shares, counts)) == pytest.approx(float((known["replica"] == "0").sum()))
