"""A gateway that holds back, in virtual time: its laws, and what is told of a load by class."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.notebook.holding import by_class, good_per_s, held_back, longest_line, speed_of
from kilocard.record import SAMPLE_COLUMNS, Kind, Run, Stamp, typed
from kilocard.specs import SLO
from kilocard.specs.cluster import GatewaySpec
from kilocard.workload import Arrivals, Fixed, Workload

MIX = {"interactive": 7.0, "async": 2.0, "batch": 1.0}
AGEING_S, INTERACTIVE_S = 1.0, 0.6


def gateway(limit: int) -> GatewaySpec:
    classes = {name: {"max_wait_s": wait} for name, wait in
               (("interactive", INTERACTIVE_S), ("async", 5.0), ("batch", 10.0))}  # fmt: skip
    return GatewaySpec.model_validate({"queue": {"limit": limit, "ageing_s": AGEING_S}, "classes": classes})


def load(times: float, seed: int = 4, seconds: float = 12.0) -> Workload:
    rate = 32 * times
    return Workload(int(rate * seconds), Fixed(512), Fixed(64), Arrivals(rate), seed=seed, priority=MIX)


@settings(max_examples=15, deadline=None)
@given(
    times=st.sampled_from([0.5, 1.0, 2.0, 3.0]), limit=st.sampled_from([0, 8, 64]), seed=st.integers(0, 99)
)
def test_everybody_is_answered_or_refused_once_and_nobody_waits_past_the_bound(
    times: float, limit: int, seed: int
) -> None:
    table = held_back(
        load(times, seed, 6.0), gateway(limit), replicas=4, cap=16, speed=lambda held: (0.1, 0.03)
    )
    assert sorted(table["request_id"]) == sorted(it.request_id for it in load(times, seed, 6.0).draw())
    assert set(table["status"]) <= {"ok", "refused"}
    for name, rank in (("interactive", 0), ("async", 1), ("batch", 2)):
        waits = table[table["priority"] == name]["queue_s"].dropna()
        assert not len(waits) or waits.max() <= rank * AGEING_S + INTERACTIVE_S + 0.5
        assert limit or not len(waits) or waits.max() == 0


def test_interactive_answers_in_time_do_not_fall_at_three_times_the_load() -> None:
    slo, span = SLO(ttft_p99_s=1.0), (2.0, 12.0)
    pace = {"replicas": 4, "cap": 16, "speed": speed_of((1, 16), (0.1, 0.2), (0.018, 0.028))}
    good = [
        good_per_s(held_back(load(times), gateway(64), **pace), slo, span, "interactive")
        for times in (1, 2, 3)
    ]
    assert min(good[1:]) >= 0.95 * good[0]


def test_a_speed_lies_between_those_that_are_known() -> None:
    speed = speed_of((1, 3), (1.0, 2.0), (0.1, 0.3))
    assert [speed(held)[0] for held in (0.5, 1, 2, 3, 9)] == [1.0, 1.0, 1.5, 2.0, 2.0]
    assert speed(2)[1] == pytest.approx(0.2)


def test_a_class_is_told_with_its_waits_and_its_refusals() -> None:
    table = held_back(load(3.0), gateway(8), replicas=1, cap=4, speed=lambda held: (0.1, 0.03))
    told = {name: row for name, *row in by_class(table)}
    assert list(told) == list(MIX)
    for asked, answered, refused, median, longest in told.values():
        assert asked == answered + refused
        assert answered == 0 or median <= longest


def test_the_longest_line_is_the_most_that_were_seen() -> None:
    stamp = Stamp(Kind.EMULATED, "m", "e", "1", "c", {"name": "b"}, "2026-11-30T00:00:00+00:00")
    samples = typed(
        [{"t_s": t, "replica": "gateway", "waiting": w} for t, w in ((0, 1), (1, 7))], SAMPLE_COLUMNS
    )
    rows = [{"request_id": "1", "sent_s": 0.0, "status": "ok"}]
    assert longest_line(Run(Run.from_rows(rows, stamp).requests, stamp, samples)) == 7


def test_goodput_counts_what_was_asked_in_the_span() -> None:
    table = held_back(load(0.5), gateway(8), replicas=4, cap=16, speed=lambda held: (0.1, 0.015))
    everything = good_per_s(table, SLO(ttft_p99_s=1.0), (0.0, 12.0))
    assert everything == pytest.approx(len(table) / 12, rel=0.2)
    assert good_per_s(table, SLO(ttft_p99_s=0.05), (0.0, 12.0)) == 0
