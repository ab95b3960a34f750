"""What is due leaves in the order of its moment, ties by number, whatever order it came in."""

from hypothesis import given
from hypothesis import strategies as st

from kilocard.engine_model.compiled import NEVER_PS, plain
from kilocard.fleet import due

push, pop, soonest_ps = plain(due.push), plain(due.pop), plain(due.soonest_ps)
moments = st.lists(st.integers(0, 9), max_size=40)


@given(moments, st.data())
def test_the_soonest_leaves_first(at_ps: list[int], data: st.DataObject) -> None:
    heap, held = due.new_due(len(at_ps)), list[tuple[int, int]]()
    for request, moment in enumerate(at_ps):
        push(heap, request, moment)
        held.append((moment, request))
        if data.draw(st.booleans()):
            first = min(held)
            assert soonest_ps(heap) == first[0]
            assert pop(heap) == first[1]
            held.remove(first)
    assert [pop(heap) for _ in held] == [request for _, request in sorted(held)]
    assert soonest_ps(heap) == NEVER_PS
