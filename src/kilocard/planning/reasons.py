"""Why a plan is as large as it is: sections of its report."""

from __future__ import annotations

from collections.abc import Iterator

from kilocard.planning.page import Section
from kilocard.planning.plan import SOURCES_EFFICIENCY, Plan
from kilocard.planning.words import cards_of, counted, milliseconds

SHOWN = 8


def from_baseline(plan: Plan) -> Iterator[Section]:
    """What the measurement alone says."""
    learnt = plan.from_baseline
    if learnt is None:
        return
    level, kind = learnt.level, learnt.baseline.kind.value
    errors = ", ".join(f"{error:+.0%}" for error in learnt.fit_errors)
    rows = [
        ("by", "cards", "with headroom", "kind"),
        (
            "the target ÷ what one replica gives",
            f"{learnt.ideal.efficient * learnt.baseline.cards:,}",
            cards_of(learnt.ideal),
            "derived",
        ),
        *(
            (
                f"the same at {share:.0%} of that",
                f"{its.efficient * its.cards_per_replica:,}",
                cards_of(its),
                "derived from a published share",
            )
            for share, its in zip(SOURCES_EFFICIENCY, learnt.discounted, strict=True)
        ),
        ("this plan", f"{plan.option.cards:,} with headroom", f"{plan.cards:,} with spares", "simulated"),
    ]
    yield Section(
        "From the baseline",
        (
            f"{learnt.baseline.source} ({kind}): at {level.concurrency:g} at once a replica of "
            f"{counted(learnt.baseline.cards, 'card')} gives {level.output_tokens_per_s:,.0f} tokens/s at "
            f"{milliseconds(level.tpot_s)} a token. The engine model was fitted to it; its TPOT is off by "
            f"{errors} at the levels of the baseline. No more requests at once are planned than were seen.",
        ),
        tuple(rows),
    )


def why_not_fewer(plan: Plan) -> Section:
    """The waterfall."""
    first = plan.falls[0].tokens_per_s
    rows = [("after", "tokens/s a replica", "of the one before", "kind")]
    for k, fall in enumerate(plan.falls):
        kind = "derived" if k == 0 or k >= len(plan.falls) - 2 else "simulated"
        rows.append((fall.what, f"{fall.tokens_per_s:,.1f}", f"{fall.share:.1%}", kind))
    return Section(
        "Why not fewer",
        ("What a replica gives within the SLO, after one thing more that a real cluster has:",),
        tuple(rows),
        bars=tuple(min(1.0, fall.tokens_per_s / first) for fall in plan.falls),
    )


def why_not_more(plan: Plan) -> Iterator[Section]:
    """Against what others propose."""
    if not plan.target.proposals:
        return
    mine = plan.target.output_tokens_per_s / plan.cards
    rows = [("by", "cards", "tokens/s a card", "this plan's card gives")]
    points = []
    learnt = plan.from_baseline
    for its in plan.target.proposals:
        each = its.tokens_per_s_each / its.cards_each
        rows.append((its.name, f"{its.cards:,}", f"{each:,.3g}", f"{mine / each:,.1f} times that"))
        if learnt and its.cards_each > learnt.baseline.cards:
            alone = (learnt.level.output_tokens_per_s or 0.0) / learnt.baseline.cards
            points.append(
                f"{its.name} counts {its.tokens_per_s_each:g} tokens/s for {its.cards_each} cards together, "
                f"where the baseline's one card gives {alone:,.0f} by itself at "
                f"{learnt.level.concurrency:g} requests at once: {its.tokens_per_s_each:g} is what a single "
                f"request sees, not what a replica gives. The same {its.cards:,} cards as replicas of one "
                f"would give {its.cards * alone:,.0f} tokens/s, "
                f"{its.cards * alone / (its.replicas * its.tokens_per_s_each):,.0f} times as much."
            )
    rows.append(("this plan", f"{plan.cards:,}", f"{mine:,.3g}", ""))
    yield Section("Why not more", table=tuple(rows), points=tuple(points))


def others(plan: Plan) -> Section:
    """The next best ways."""
    rows = [("way", "cards", "price an hour", "TTFT P99", "TPOT P99")]
    for its in sorted(plan.search.options, key=lambda it: it.price_per_hour)[:SHOWN]:
        rows.append(
            (
                its.candidate.label,
                f"{its.cards:,}",
                f"{its.price_per_hour:,.2f}",
                milliseconds(its.seen.ttft_s.p99),
                milliseconds(its.seen.tpot_s.p99),
            )
        )
    found = plan.search
    return Section(
        "What else would do",
        (
            f"{found.considered:,} ways were considered: {found.ruled_out:,} cannot be cheaper by a bound, "
            f"{found.lost:,} lost in simulation, {len(found.options):,} were sized to the end in "
            f"{found.simulations:,} simulations of a small fleet. Without prices a card costs a card.",
        ),
        tuple(rows),
    )
