"""Copy or cut: copies where the model fits on one card, else the smallest group in a machine that will do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kilocard.errors import KilocardError
from kilocard.layout import reasons
from kilocard.layout.candidate import Candidate, Judge
from kilocard.layout.needs import Needs
from kilocard.layout.options import degrees_inside, layouts
from kilocard.parallel.layout import Layout


@dataclass(frozen=True, slots=True)
class Rejected:
    """A layout that was not taken, and why; `fits` tells whether it would do."""

    layout: Layout
    fits: bool
    reason: str
    candidate: Candidate | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The layout that was taken; where none will do `fits` is False, and it is the one that comes nearest."""

    layout: Layout
    fits: bool
    reason: str
    candidate: Candidate
    rejected: tuple[Rejected, ...]
    warnings: tuple[str, ...]
    advice: tuple[str, ...]


def choose_layout(
    judge: Judge, needs: Needs | None = None, *, cards: int | None = None, wanted: Layout | None = None
) -> Choice:
    """The layout for `cards` cards (where None: a machine's, or as many machines' as it takes).

    Fits on one card with room for `needs.concurrency` requests, within the limits if any → copies. Else the
    smallest tensor-parallel group inside a machine that does. Else a pipeline of machines. A layout that is
    `wanted` is judged beside them and taken, with what it costs as warnings.
    """
    needs = needs or Needs()
    if cards is not None and not 1 <= cards <= 10**6:
        raise KilocardError(f"{cards} cards: give 1 to 1,000,000")
    judged = {layout: _judged(judge, layout, needs) for layout in layouts(judge, wanted)}
    taken = judged[wanted if wanted is not None else _first_that_does(judge, judged, needs)]
    copies = _copies(taken.layout, judge.interconnect.cards_per_node, cards)
    return Choice(
        layout=replace(taken.layout, data_parallel=max(1, copies)),
        fits=copies > 0 and not reasons.shortfall(judge, taken, needs),
        reason=reasons.why(judge, taken, needs, judged.get(Layout()), cards),
        candidate=taken,
        rejected=tuple(_rejected(judge, judged, taken, needs)),
        warnings=tuple(reasons.warnings(judge, taken)),
        advice=tuple(reasons.advice(judge, taken, needs, judged.values())),
    )


def _judged(judge: Judge, layout: Layout, needs: Needs) -> Candidate:
    """At the most requests that it serves within the limits; at those needed where it cannot."""
    candidate = judge.judged(layout)
    if candidate.speed is None or not (needs.tpot_s or needs.ttft_s):
        return candidate
    most = judge.most_within(layout, candidate.speed.concurrency, needs.tpot_s, needs.ttft_s)
    return judge.judged(layout, max(most, needs.concurrency))


def _first_that_does(judge: Judge, judged: Mapping[Layout, Candidate], needs: Needs) -> Layout:
    """The smallest tensor-parallel group inside a machine that will do, else the smallest of the others."""
    per_node = judge.interconnect.cards_per_node
    ways = sorted(judged, key=lambda way: (_kind(way, per_node), way.cards_per_replica))
    for way in ways:
        if not reasons.shortfall(judge, judged[way], needs):
            return way
    return max(ways, key=lambda way: (judged[way].holds > 0, -_kind(way, per_node), way.cards_per_replica))


def _kind(layout: Layout, per_node: int) -> int:
    """What is tried first: groups inside a machine, then pipelines, then groups that leave it."""
    if layout.cuts_across_machines(per_node):
        return 2
    return int(layout.pipeline_parallel > 1)


def _copies(layout: Layout, per_node: int, cards: int | None) -> int:
    """Whole replicas on the cards there are; on whole machines where nobody says how many."""
    if cards is None:
        cards = -(-layout.cards_per_replica // per_node) * per_node
    return cards // layout.cards_per_replica


def _rejected(
    judge: Judge, judged: Mapping[Layout, Candidate], taken: Candidate, needs: Needs
) -> Iterator[Rejected]:
    for degree in degrees_inside(judge.interconnect.cards_per_node):
        if found := judge.obstacle(degree):
            yield Rejected(Layout(degree), False, found)
    for layout, candidate in sorted(judged.items(), key=lambda item: item[0].cards_per_replica):
        if layout != taken.layout:
            short = reasons.shortfall(judge, candidate, needs)
            yield Rejected(layout, not short, short or reasons.second_to(judge, candidate, taken), candidate)
