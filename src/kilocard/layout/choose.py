"""Copy or cut: copies where the model fits on one card, else the smallest group in a machine that will do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kilocard.errors import KilocardError
from kilocard.layout import reasons
from kilocard.layout.candidate import MOST_SEQUENCES, Candidate, Judge
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
    flags: tuple[str, ...]


def choose_layout(
    judge: Judge, needs: Needs | None = None, *, cards: int | None = None, wanted: Layout | None = None
) -> Choice:
    """The layout for `cards` cards (where None: a machine's, or as many machines' as it takes).

    Fits on one card with room for `needs.concurrency` requests, within the limits if any → copies. Else the
    smallest tensor-parallel group inside a machine that does. Else a pipeline, over the fewest machines. A
    layout that is `wanted` is judged beside them and taken, with what it costs as warnings.
    """
    needs = needs or Needs()
    if cards is not None and not 1 <= cards <= 10**6:
        raise KilocardError(f"{cards} cards: give 1 to 1,000,000")
    if judge.max_num_batched_tokens < needs.concurrency:
        raise KilocardError(
            f"a step of {judge.max_num_batched_tokens} tokens is too short for {needs.concurrency} requests, "
            "which write one each: raise max_num_batched_tokens"
        )
    judged = {layout: _judged(judge, layout, needs) for layout in layouts(judge, needs, wanted)}
    short = {way: reasons.shortfall(judge, it, needs, cards) for way, it in judged.items()}
    taken = judged[wanted if wanted is not None else _first_that_does(judge, judged, short, needs, cards)]
    copies = _copies(taken.layout, judge.interconnect.cards_per_node, cards)
    return Choice(
        layout=replace(taken.layout, data_parallel=max(1, copies)),
        fits=not short[taken.layout],
        reason=reasons.why(judge, taken, needs, short, asked=wanted is not None),
        candidate=taken,
        rejected=tuple(_rejected(judge, judged, taken, short)),
        warnings=tuple(reasons.warnings(judge, taken)),
        advice=tuple(reasons.advice(judge, taken, needs, judged.values())),
        flags=(*taken.layout.flags(), *_seats(needs)),
    )


def _judged(judge: Judge, layout: Layout, needs: Needs) -> Candidate:
    """At the most requests that it serves within the limits; at those needed where it cannot."""
    candidate = judge.judged(layout, max(MOST_SEQUENCES, needs.concurrency))
    if candidate.speed is None or not needs.limited:
        return candidate
    most = judge.most_within(layout, candidate.speed.concurrency, needs.tpot_s, needs.ttft_s)
    return judge.judged(layout, max(most, needs.concurrency))


def _first_that_does(
    judge: Judge,
    judged: Mapping[Layout, Candidate],
    short: Mapping[Layout, str],
    needs: Needs,
    cards: int | None,
) -> Layout:
    """The first in the rule's order that will do; where none will, the one that lacks least."""
    per_node = judge.interconnect.cards_per_node
    ways = sorted(judged, key=lambda way: _order(way, per_node))
    return next(
        (way for way in ways if not short[way]),
        min(ways, key=lambda way: reasons.lack(judged[way], needs, cards)),
    )


def _order(layout: Layout, per_node: int) -> tuple[int, int, int, int]:
    """Groups inside a machine by size; pipelines by machines, cards, and the wider cut; groups beyond."""
    if layout.cuts_across_machines(per_node):
        return 2, layout.cards_per_replica, 0, 0
    machines = layout.machines_per_replica(per_node)
    if layout.pipeline_parallel == 1:
        return 0, layout.tensor_parallel, 0, 0
    inside = layout.cards_per_replica if machines == 1 else 0
    return 1, machines, inside, -layout.tensor_parallel


def _copies(layout: Layout, per_node: int, cards: int | None) -> int:
    """Whole replicas on the cards there are, none across machines that fits in one."""
    each = layout.cards_per_replica
    nodes = layout.machines_per_replica(per_node)
    if cards is None:
        cards = nodes * per_node
    if nodes > 1:
        return max(cards // (nodes * per_node), int(cards >= each))
    return cards // per_node * (per_node // each) + cards % per_node // each


def _seats(needs: Needs) -> tuple[str, ...]:
    """vLLM's flag where more are needed at once than it lets in by itself."""
    if needs.concurrency <= MOST_SEQUENCES:
        return ()
    return "--max-num-seqs", str(needs.concurrency)


def _rejected(
    judge: Judge, judged: Mapping[Layout, Candidate], taken: Candidate, short: Mapping[Layout, str]
) -> Iterator[Rejected]:
    for degree in degrees_inside(judge.interconnect.cards_per_node):
        if found := judge.obstacle(degree):
            yield Rejected(Layout(degree), False, found)
    for layout, candidate in sorted(judged.items(), key=lambda item: item[0].cards_per_replica):
        if layout != taken.layout:
            reason = short[layout] or reasons.second_to(judge, candidate, taken)
            yield Rejected(layout, not short[layout], reason, candidate)
