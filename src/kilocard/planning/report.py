"""A plan as a director reads it: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from kilocard import facts
from kilocard.planning.capacity import Size
from kilocard.planning.page import Section
from kilocard.planning.placement import Placement
from kilocard.planning.plan import SOURCES_EFFICIENCY, Plan
from kilocard.planning.search import wanted_per_s
from kilocard.specs.slo import SLO

SHOWN = 8


def title_of(plan: Plan) -> str:
    """What the plan is for."""
    return f"{plan.target.output_tokens_per_s:,.0f} tokens/s of {facts.model(plan.target.model).name}"


def sections_of(plan: Plan) -> list[Section]:
    """All of the report."""
    return [
        _answer(plan),
        _bought(plan),
        *_from_baseline(plan),
        _why_not_fewer(plan),
        *_why_not_more(plan),
        _others(plan),
        *_where(plan),
        _stages(plan),
        _assumptions(plan),
        _risks(plan),
    ]


def _answer(plan: Plan) -> Section:
    target, seen, candidate = plan.target, plan.seen, plan.option.candidate
    held = f"TTFT P99 {_ms(seen.ttft_s.p99)}, TPOT P99 {_ms(seen.tpot_s.p99)}"
    return Section(
        "The answer",
        (
            f"{plan.cards:,} cards ({candidate.card}): {plan.replicas:,} replicas of "
            f"{_counted(candidate.tensor_parallel, 'card')} serve {target.output_tokens_per_s:,.0f} output "
            f"tokens/s within {limits(target.slo)}, with {target.headroom:.0%} of headroom and "
            f"{plan.spares} spare.",
            f"Simulated in full at {wanted_per_s(target):,.1f} requests/s: {held}; {seen.ok:,} of "
            f"{seen.arrived:,} requests ended well. {_trust(plan)}",
        ),
    )


def _bought(plan: Plan) -> Section:
    candidate, cost, option = plan.option.candidate, plan.cost, plan.option
    rows = [
        ("what", "value", "kind"),
        ("weights", candidate.weights, "chosen"),
        ("cards a replica (tensor parallel)", str(candidate.tensor_parallel), "chosen"),
        ("requests at once in a replica, and the gateway's cap", str(candidate.max_num_seqs), "chosen"),
        ("tokens a step", str(candidate.max_num_batched_tokens), "chosen"),
        ("policy of the gateways", candidate.policy, "chosen"),
        ("replicas for the load and its headroom", f"{option.replicas:,}", "simulated"),
        (f"spares, for {plan.target.availability:.3%} of the time", f"{plan.spares:,}", "derived"),
        ("card-hours an hour", f"{cost.card_hours:,.0f}", "derived"),
        ("power of the cards at their limit", _unknown(cost.kwh, "{:,.1f} kW"), "derived"),
        ("price an hour", _unknown(cost.price_per_hour, "{:,.2f}"), "yours"),
        ("price of a million tokens at the target", _unknown(cost.per_million_tokens, "{:,.4g}"), "yours"),
        ("energy of a million tokens", _unknown(cost.kwh_per_million_tokens, "{:,.3g} kWh"), "derived"),
    ]
    return Section("What is bought", table=tuple(rows))


def _from_baseline(plan: Plan) -> Iterator[Section]:
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
            _cards(learnt.ideal),
            "derived",
        ),
        *(
            (
                f"the same at {share:.0%} of that",
                f"{its.efficient * its.cards_per_replica:,}",
                _cards(its),
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
            f"{_counted(learnt.baseline.cards, 'card')} gives {level.output_tokens_per_s:,.0f} tokens/s at "
            f"{_ms(level.tpot_s)} a token. The engine model was fitted to it; its TPOT is off by {errors} "
            "at the levels of the baseline. No more requests at once are planned than were measured.",
        ),
        tuple(rows),
    )


def _why_not_fewer(plan: Plan) -> Section:
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


def _why_not_more(plan: Plan) -> Iterator[Section]:
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


def _others(plan: Plan) -> Section:
    rows = [("way", "cards", "price an hour", "TTFT P99", "TPOT P99")]
    for its in sorted(plan.search.options, key=lambda it: it.price_per_hour)[:SHOWN]:
        rows.append(
            (
                its.candidate.label,
                f"{its.cards:,}",
                f"{its.price_per_hour:,.2f}",
                _ms(its.seen.ttft_s.p99),
                _ms(its.seen.tpot_s.p99),
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


def _where(plan: Plan) -> Iterator[Section]:
    placed = plan.placement
    if placed is None:
        return
    if not isinstance(placed, Placement):
        yield Section("Where they stand", (f"They do not all fit. {placed}",))
        return
    rows = [("what is lost", "of the replicas")]
    for kind, name in (
        ("node", "a node"),
        ("rack", "a rack"),
        ("switch", "a switch"),
        ("power", "a power domain"),
    ):
        rows.append((name, f"{placed.worst(kind):.1%}"))
    least = plan.target.headroom / (1 + plan.target.headroom)
    text = f"The load without its headroom is still served while no more than {least:.0%} are lost at once."
    yield Section("Where they stand", (text,), tuple(rows))


def _stages(plan: Plan) -> Section:
    rows = [
        ("replicas", "load", "pass: tokens/s at least", "TTFT P99 at most", "TPOT P99 at most", "simulated")
    ]
    for stage in plan.stages:
        rows.append(
            (
                f"{stage.replicas:,}",
                f"{stage.requests_per_s:,.2f} requests/s",
                f"{stage.tokens_per_s:,.0f}",
                _ms(stage.ttft_p99_s),
                _ms(stage.tpot_p99_s),
                f"TTFT {_ms(stage.predicted_ttft_p99_s)}, TPOT {_ms(stage.predicted_tpot_p99_s)}",
            )
        )
    text = (
        "Each stage is passed before the next is bought: `kilocard bench` at that load, an hour at the "
        "least. Where one fails, measure, calibrate to the measurement, and plan again."
    )
    return Section("Verify small, then large", (text,), tuple(rows))


def _assumptions(plan: Plan) -> Section:
    target, failures = plan.target, plan.target.failures
    arrivals = (
        "as a Poisson process"
        if target.traffic.arrivals_cv == 1
        else f"in bursts (cv {target.traffic.arrivals_cv:g})"
    )
    return Section(
        "What it rests on",
        points=(
            f"Requests come {arrivals}, with {target.prompt_mean:,.0f} tokens in and "
            f"{target.output_mean:,.0f} out in the mean, no prefix shared.",
            f"Calibration: {plan.calibration} ({plan.calibration_kind}).",
            f"Equal cards differ by {target.variance:.0%} (coefficient of variation; assumed).",
            f"A card fails once in {failures.card_hours:,.0f} h and is away for {failures.repair_h:g} h, "
            "each by itself; the first from Llama 3's training (arXiv:2407.21783), the second assumed "
            "unless you said it.",
            "Prices are yours; none is known here.",
        ),
    )


def _risks(plan: Plan) -> Section:
    card = facts.card(plan.option.candidate.card)
    points = [
        "Longer prompts or answers than assumed: replay a recorded day before buying (`kilocard simulate`)."
    ]
    if card.unverified:
        points.append(f"Unverified facts of {card.name}: {', '.join(card.unverified)}.")
    if plan.calibration_kind == "datasheet":
        points.append(
            "Nobody has measured this card here: one run of one card (`kilocard calibrate`) comes first."
        )
    if plan.placement is None:
        points.append("No site was given: what one rack or power domain takes with it is unknown.")
    margin = plan.target.slo.tpot_p99_s
    if margin and plan.seen.tpot_s.p99 and plan.seen.tpot_s.p99 > 0.9 * margin:
        points.append("TPOT is within a tenth of its limit: the calibration's own error is as large.")
    return Section("What may go wrong", points=tuple(points))


def limits(slo: SLO) -> str:
    """An SLO in words."""
    named = ((slo.ttft_p99_s, "TTFT P99"), (slo.tpot_p99_s, "TPOT P99"), (slo.e2e_p99_s, "E2E P99"))
    return ", ".join(f"{name} {_ms(limit)}" for limit, name in named if limit is not None)


def _trust(plan: Plan) -> str:
    errors = ", ".join(
        f"{name.removesuffix('_s').upper()} {error:.0%}" for name, error in plan.expected_error.items()
    )
    return f"Median error that this kind of calibration has shown: {errors or 'unknown'}."


def _cards(size: Size) -> str:
    return f"{size.with_headroom * size.cards_per_replica:,}"


def _unknown(value: float | None, form: str) -> str:
    return "unknown" if value is None else form.format(value)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{1e3 * seconds:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
