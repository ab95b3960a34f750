"""Which layouts there are to choose from: the degrees that fill a machine evenly, and those beyond it."""

from __future__ import annotations

from collections.abc import Iterator

from kilocard.layout.candidate import Judge
from kilocard.parallel.layout import Layout

MOST_NODES = 16


def layouts(judge: Judge, wanted: Layout | None = None) -> Iterator[Layout]:
    """Every degree inside a machine, a pipeline of the fewest cards, a group of two machines; and where no
    machine holds a request, pipelines of machines up to the first that does."""
    per_node = judge.interconnect.cards_per_node
    inside = [Layout(degree) for degree in degrees_inside(per_node) if not judge.obstacle(degree)]
    yield from inside
    if per_node > 1 and judge.model.layers > 1:
        yield Layout(1, min(degrees_inside(per_node)[1], judge.model.layers))
    if not judge.obstacle(2 * per_node):
        yield Layout(2 * per_node)
    if not any(judge.account(layout).max_concurrency for layout in inside):
        for layout in _pipelines(judge, per_node):
            yield layout
            if judge.account(layout).max_concurrency:
                break
    if wanted is not None:
        yield wanted


def degrees_inside(cards_per_node: int) -> list[int]:
    """Group sizes that fill a machine without a rest: its divisors."""
    return [degree for degree in range(1, cards_per_node + 1) if cards_per_node % degree == 0]


def _pipelines(judge: Judge, cards_per_node: int) -> Iterator[Layout]:
    """Machine after machine, each cut inside as far as the model allows."""
    degree = max(degree for degree in degrees_inside(cards_per_node) if not judge.obstacle(degree))
    each = cards_per_node // degree
    for nodes in range(1 if each > 1 else 2, MOST_NODES + 1):
        if nodes * each <= judge.model.layers:
            yield Layout(degree, nodes * each)
