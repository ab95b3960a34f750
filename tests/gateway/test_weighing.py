"""Weights that move: towards the quick ones, within bounds, and only where they are asked for."""

from hypothesis import given
from hypothesis import strategies as st

from kilocard.gateway.lines import Lines
from kilocard.gateway.member import Member
from kilocard.gateway.weighing import Weighing
from kilocard.routing.weights import WeightRule

LEAST = 0.2


def members(count: int) -> list[Member]:
    return [Member(id=str(n), host="h", port=1, row=n, lines=Lines("h", 1, 1.0)) for n in range(count)]


def seen(weighing: Weighing, one: Member, tpot_s: float, now_s: float) -> None:
    for _ in range(30):
        weighing.saw(one, tpot_s, now_s)


@given(st.lists(st.floats(1e-4, 1.0), min_size=2, max_size=6), st.integers(1, 40))
def test_the_quickest_keeps_all_and_none_falls_under_the_least(paces: list[float], turns: int) -> None:
    weighing, its = Weighing(WeightRule(least=LEAST), every_s=10.0), members(len(paces))
    for turn in range(turns):
        for one, pace_s in zip(its, paces, strict=True):
            seen(weighing, one, pace_s, 10.0 * turn)
        weighing.weigh(its, [0.0] * len(its), 10.0 * turn)
    weights = [weighing.weight(one) for one in its]
    assert all(LEAST <= weight <= 1 for weight in weights)
    assert weights[paces.index(min(paces))] == 1.0
    by_pace = sorted(zip(paces, weights, strict=True))
    assert [weight for _, weight in by_pace] == sorted(weights, reverse=True)


def test_one_that_is_slow_loses_its_part_and_gets_it_back() -> None:
    weighing, (quick, slow) = Weighing(WeightRule(least=LEAST), every_s=10.0), members(2)
    for turn in range(60):
        seen(weighing, quick, 0.01, 10.0 * turn)
        seen(weighing, slow, 0.04 if turn < 30 else 0.01, 10.0 * turn)
        weighing.weigh([quick, slow], [0.0, 0.0], 10.0 * turn)
        if turn == 29:
            assert weighing.weight(slow) < 0.3
    assert weighing.weight(slow) > 0.9
    weighing.forget(slow)
    assert weighing.weight(slow) == 1.0


def test_nothing_moves_unless_it_is_asked_for() -> None:
    weighing, (one, other) = Weighing(), members(2)
    seen(weighing, one, 1.0, 0.0)
    weighing.weigh([one, other], [1.0, 0.0], 0.0)
    assert weighing.weight(one) == weighing.weight(other) == 1.0
    assert not weighing.is_due(1e9)
