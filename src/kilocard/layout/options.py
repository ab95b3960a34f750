"""Which layouts there are to choose from: groups inside a machine, pipelines, and a group beyond it."""

from __future__ import annotations

from collections.abc import Iterator

from kilocard.layout.candidate import Judge
from kilocard.layout.needs import Needs
from kilocard.parallel.layout import Layout

MOST_STAGES = 128


def layouts(judge: Judge, needs: Needs, wanted: Layout | None = None) -> Iterator[Layout]:
    """Every tensor-parallel degree that fills a machine without a rest; the shortest pipeline that holds what
    is needed and those that fill a machine, and where no such degree does one for each; a group of two
    machines; and the one wanted."""
    per_node = judge.interconnect.cards_per_node
    inside = [degree for degree in degrees_inside(per_node) if not judge.obstacle(degree)]
    for degree in inside:
        yield Layout(degree)
    held = any(judge.account(Layout(degree)).max_concurrency >= needs.concurrency for degree in inside)
    for degree in inside[:1] if held else inside:
        if stages := _fewest_stages(judge, degree, needs):
            yield Layout(degree, stages)
            yield from (Layout(degree, more) for more in inside if held and more > stages)
    if not judge.obstacle(2 * per_node):
        yield Layout(2 * per_node)
    if wanted is not None:
        yield wanted


def degrees_inside(cards_per_node: int) -> list[int]:
    """Group sizes that fill a machine without a rest: its divisors."""
    return [degree for degree in range(1, cards_per_node + 1) if cards_per_node % degree == 0]


def _fewest_stages(judge: Judge, degree: int, needs: Needs) -> int:
    """The fewest stages, two or more, that hold what is needed; 0 where none do."""
    for stages in range(2, min(MOST_STAGES, judge.model.layers) + 1):
        if judge.account(Layout(degree, stages)).max_concurrency >= needs.concurrency:
            return stages
    return 0
