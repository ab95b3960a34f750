"""A plan as a director reads it: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from kilocard import facts
from kilocard.planning.page import Section
from kilocard.planning.placement import Placement
from kilocard.planning.plan import Plan
from kilocard.planning.reasons import from_baseline, others, why_not_fewer, why_not_more
from kilocard.planning.search import wanted_per_s
from kilocard.planning.words import counted, limits, milliseconds, or_unknown


def title_of(plan: Plan) -> str:
    """What the plan is for."""
    return f"{plan.target.output_tokens_per_s:,.0f} tokens/s of {facts.model(plan.target.model).name}"


def sections_of(plan: Plan) -> list[Section]:
    """All of the report."""
    return [
        _answer(plan),
        _bought(plan),
        *from_baseline(plan),
        why_not_fewer(plan),
        *why_not_more(plan),
        others(plan),
        *_where(plan),
        _stages(plan),
        _assumptions(plan),
        _risks(plan),
    ]


def _answer(plan: Plan) -> Section:
    target, seen, candidate = plan.target, plan.seen, plan.option.candidate
    held = f"TTFT P99 {milliseconds(seen.ttft_s.p99)}, TPOT P99 {milliseconds(seen.tpot_s.p99)}"
    return Section(
        "The answer",
        (
            f"{plan.cards:,} cards ({candidate.card}): {plan.replicas:,} replicas of "
            f"{counted(candidate.tensor_parallel, 'card')} serve {target.output_tokens_per_s:,.0f} output "
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
        ("power of the cards at their limit", or_unknown(cost.kwh, "{:,.1f} kW"), "derived"),
        ("price an hour", or_unknown(cost.price_per_hour, "{:,.2f}"), "yours"),
        ("price of a million tokens at the target", or_unknown(cost.per_million_tokens, "{:,.4g}"), "yours"),
        ("energy of a million tokens", or_unknown(cost.kwh_per_million_tokens, "{:,.3g} kWh"), "derived"),
    ]
    return Section("What is bought", table=tuple(rows))


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
                milliseconds(stage.ttft_p99_s),
                milliseconds(stage.tpot_p99_s),
                f"TTFT {milliseconds(stage.predicted_ttft_p99_s)}, "
                f"TPOT {milliseconds(stage.predicted_tpot_p99_s)}",
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


def _trust(plan: Plan) -> str:
    errors = ", ".join(
        f"{name.removesuffix('_s').upper()} {error:.0%}" for name, error in plan.expected_error.items()
    )
    return f"Median error that this kind of calibration has shown: {errors or 'unknown'}."
