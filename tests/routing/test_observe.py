"""What a gateway sees, counted: whatever happens in whatever order, nothing is left when all is over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.engine_model.compiled import plain
from kilocard.routing import observe
from kilocard.routing.company import SEEN_S
from kilocard.routing.replicas import Arrival, new_replicas

sent, began, progressed, ended = map(plain, (observe.sent, observe.began, observe.progressed, observe.ended))
set_share, set_cap, requests_s = map(plain, (observe.set_share, observe.set_cap, observe.requests_s))


def weights_hold(replicas: Any) -> bool:
    full = (replicas.cap > 0) & (replicas.active >= replicas.cap)
    return bool((replicas.weight == np.where(full, 0.0, replicas.share)).all())


@given(st.data(), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_counts_return_to_nothing(data: st.DataObject, count: int) -> None:
    replicas = new_replicas(count)
    flying: list[dict[str, Any]] = []
    for number in range(data.draw(st.integers(1, 40))):
        now_s = float(number)
        deed = data.draw(st.sampled_from(["send", "begin", "progress", "end", "share", "cap"]))
        r = data.draw(st.integers(0, count - 1))
        if deed == "send":
            replicas.cached_tokens[r] = data.draw(st.integers(0, 3000))
            arrival = Arrival(data.draw(st.integers(1, 2000)), data.draw(st.integers(1, 500)), -1, 0)
            uncached = int(sent(replicas, r, arrival, now_s))
            left, read = float(arrival.expected_tokens), int(replicas.read_tokens[r])
            flying.append({"r": r, "uncached": uncached, "left": left, "read": read})
        elif deed == "share":
            set_share(replicas, r, data.draw(st.sampled_from([0.0, 0.2, 1.0])))
        elif deed == "cap":
            set_cap(replicas, r, data.draw(st.integers(0, 3)))
        elif flying:
            one = flying[data.draw(st.integers(0, len(flying) - 1))]
            if deed == "begin":
                began(replicas, one["r"], one["uncached"], data.draw(st.floats(0, 10)), one["read"])
                one["uncached"], one["read"] = 0, int(replicas.read_tokens[one["r"]])
            elif deed == "progress":
                gone = min(one["left"], float(data.draw(st.integers(0, 100))))
                progressed(replicas, one["r"], int(gone), data.draw(st.floats(0, 10)), gone, one["read"], 3.0)
                one["left"] -= gone
            else:
                ended(replicas, one["r"], one["uncached"], one["left"], now_s)
                flying.remove(one)
        assert weights_hold(replicas)
        assert (replicas.active >= 0).all() and (replicas.prompt_tokens >= 0).all()
        assert (replicas.tpot_s >= 0).all() and (replicas.prefill_s >= 0).all()
        assert (replicas.slowness >= 0).all() and (replicas.company[SEEN_S] > 0).all()
    for one in flying:
        ended(replicas, one["r"], one["uncached"], one["left"], 50.0)
    assert (replicas.active == 0).all() and (replicas.prompt_tokens == 0).all()
    assert replicas.output_left == pytest.approx(0)
    assert weights_hold(replicas)


def test_the_pace_is_followed_and_what_was_seen_long_ago_is_forgotten() -> None:
    replicas = new_replicas(1)
    progressed(replicas, 0, 20, 0.5, 0.0, 0, 1.0)
    assert replicas.tpot_s[0] == pytest.approx(0.025)
    for _ in range(40):
        progressed(replicas, 0, 8, 0.04, 0.0, 0, 1.0)
    assert replicas.tpot_s[0] == pytest.approx(0.005, rel=0.05)


def test_prompts_that_wait_for_each_other_are_not_taken_for_slow_ones() -> None:
    replicas = new_replicas(1)
    arrival = Arrival(1000, 10, -1, 0)
    for _ in range(3):
        waits, before = [0.1, 0.2, 0.3], int(replicas.read_tokens[0])
        uncached = [int(sent(replicas, 0, arrival, 0.0)) for _ in waits]
        for tokens, waited_s in zip(uncached, waits, strict=True):
            began(replicas, 0, tokens, waited_s, before)
            ended(replicas, 0, 0, 10.0, 0.0)
    assert replicas.prefill_s[0] == pytest.approx(1e-4)


@given(st.lists(st.integers(64, 4000), min_size=1, max_size=12), st.data())
def test_a_queue_that_grows_or_drains_hides_nothing_of_how_fast_prompts_are_read(
    prompts: list[int], data: st.DataObject
) -> None:
    """One is read after another, at 50 us a token, whenever each was sent."""
    replicas, now_s, sent_at = new_replicas(1), 0.0, []
    waiting = list(prompts)
    while waiting or sent_at:
        if waiting and (not sent_at or data.draw(st.booleans())):
            uncached = int(sent(replicas, 0, Arrival(waiting.pop(), 10, -1, 0), now_s))
            sent_at.append((uncached, now_s, int(replicas.read_tokens[0])))
        else:
            uncached, since_s, before = sent_at.pop(0)
            now_s += 50e-6 * uncached
            began(replicas, 0, uncached, now_s - since_s, before)
            assert replicas.prefill_s[0] == pytest.approx(50e-6)


def test_a_short_prompt_tells_nothing_of_prefill() -> None:
    replicas = new_replicas(1)
    uncached = int(sent(replicas, 0, Arrival(20, 10, -1, 0), 0.0))
    began(replicas, 0, uncached, 5.0, 0)
    assert replicas.prefill_s[0] == 0


def test_pauses_for_the_prompts_of_others_are_not_taken_for_the_cost_of_company() -> None:
    replicas = new_replicas(2)
    for r, read in ((0, 0), (1, 1000)):
        for _ in range(30):
            replicas.active[r] += 1
            before = int(replicas.read_tokens[r])
            replicas.read_tokens[r] += read
            replicas.prefill_s[r] = 1e-4
            progressed(replicas, r, 20, 20 * 0.01 + read * 1e-4, 0.0, before, float(replicas.active[r]))
    assert replicas.slowness == pytest.approx(1.0, rel=0.1)
    assert replicas.company[SEEN_S, :10] == pytest.approx(0.01, rel=0.1)
    assert replicas.tpot_s[0] == pytest.approx(0.01) and replicas.tpot_s[1] == pytest.approx(0.015)


def test_a_slow_replica_shows_as_slow_and_does_not_change_what_is_usual() -> None:
    replicas = new_replicas(4)
    replicas.active[:] = 5
    for _ in range(200):
        for r, pace_s in enumerate((0.01, 0.01, 0.01, 0.05)):
            progressed(replicas, r, 8, 8 * pace_s, 0.0, 0, 5.0)
    usual_s = replicas.company[SEEN_S, 4]
    assert replicas.slowness * usual_s == pytest.approx([0.01, 0.01, 0.01, 0.05], rel=0.05)
    assert replicas.slowness[3] / replicas.slowness[0] == pytest.approx(5, rel=0.05)


@given(st.lists(st.tuples(st.booleans(), st.floats(0.01, 5.0)), min_size=1, max_size=30))
def test_the_seconds_of_all_requests_grow_by_their_mean_number(deeds: list[tuple[bool, float]]) -> None:
    replicas, now_s, active, area_s = new_replicas(1), 0.0, 0, 0.0
    for joins, pause_s in deeds:
        if joins:
            sent(replicas, 0, Arrival(10, 5, -1, 0), now_s)
            active += 1
        elif active:
            ended(replicas, 0, 0, 5.0, now_s)
            active -= 1
        now_s, area_s = now_s + pause_s, area_s + active * pause_s
        assert requests_s(replicas, 0, now_s) == pytest.approx(area_s)


@given(st.integers(0, 1000), st.sampled_from([0.02, 0.2]), st.sampled_from([4, 16]))
@settings(max_examples=10, deadline=None)
def test_mad_answers_change_neither_what_is_usual_nor_who_is_slow(
    seed: int, share: float, times: int
) -> None:
    """They come as whole answers, so much faster than any: two equal engines stay about equal."""
    replicas, random = new_replicas(2), np.random.default_rng(seed)
    for number in range(3000):
        mad = random.random() < share
        tokens, pace_s = (800, 0.01 / times) if mad else (20, 0.01)
        progressed(replicas, number % 2, tokens, tokens * pace_s, 0.0, 0, 4.0)
    for r in (0, 1):
        for _ in range(20):
            progressed(replicas, r, 20, 0.2, 0.0, 0, 4.0)
    assert 0.01 / (2 * times) < replicas.company[SEEN_S, 3] < 0.02
    assert replicas.slowness[0] == pytest.approx(replicas.slowness[1], rel=0.5)


@given(st.integers(1, 10**9), st.floats(1e-4, 1.0), st.floats(1, 600))
def test_an_answer_of_any_length_leaves_paces_that_can_be(tokens: int, pace_s: float, company: float) -> None:
    replicas = new_replicas(1)
    for _ in range(4):
        progressed(replicas, 0, tokens, tokens * pace_s, 0.0, 0, company)
        progressed(replicas, 0, 20, 0.2, 0.0, 0, company)
    assert (replicas.company[SEEN_S] > 0).all() and np.isfinite(replicas.company[SEEN_S]).all()
    assert replicas.slowness[0] > 0
