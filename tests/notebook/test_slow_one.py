"""One slow replica: what is told of a span is what was in it, and a pool is judged as the gateway judges."""

import pytest

from kilocard.notebook.slow_one import judged_after, seen_in
from kilocard.record import Kind, Run, Stamp
from kilocard.routing.slow import Paced, SlowRule

STAMP = Stamp(Kind.EMULATED, "m", "e", "1", "c", {"name": "b"}, "2026-11-30T00:00:00+00:00")


def request(number: int, sent_s: float, step_s: float, replica: str, status: str = "ok") -> dict[str, object]:
    first = sent_s + step_s
    return {"request_id": str(number), "status": status, "sent_s": sent_s, "first_token_s": first,
            "last_token_s": first + 9 * step_s, "output_tokens": 10, "replica": replica}  # fmt: skip


def test_a_span_holds_what_was_sent_in_it() -> None:
    rows = [request(1, 0.0, 0.01, "0"), request(2, 1.0, 0.05, "0"), request(3, 1.5, 0.01, "1")]
    rows.append(request(4, 1.6, 0.01, "1", "error"))
    told = seen_in(Run.from_rows(rows, STAMP), "0", 1.0, 2.0)
    assert (told.requests, told.share_percent) == (2, 50.0)
    assert told.in_flight_percent == pytest.approx(100 * 0.5 / 0.6)
    assert told.tpot_p50_ms == pytest.approx(30.0)
    assert told.ttft_p99_ms == pytest.approx(49.6)


def pool(*paces: tuple[float, float]) -> list[Paced]:
    return [Paced(tpot_s, load, 0.0, True) for tpot_s, load in paces]


def test_who_is_slower_at_like_load_is_slow_and_who_is_busier_is_not() -> None:
    seven = [(0.02, 4.0)] * 7
    assert judged_after(SlowRule(), pool((0.1, 4.0), *seven)) == [0]
    assert judged_after(SlowRule(), pool((0.05, 12.0), *seven)) == []
    assert judged_after(SlowRule(), pool(*[(0.35, 40.0)] * 8)) == []
    assert judged_after(SlowRule(), pool((0.1, 4.0), *seven), seconds=2) == []
    assert judged_after(SlowRule(), pool(*[(0.1, 4.0)] * 3, *[(0.02, 4.0)] * 5)) == [0, 1]
