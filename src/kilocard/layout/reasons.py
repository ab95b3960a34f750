"""Why a layout is taken or not, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kilocard import facts
from kilocard.layout.candidate import Candidate, Judge
from kilocard.layout.needs import Needs
from kilocard.parallel.layout import Layout

FEWER_BITS = {
    "bf16": ("fp8", "int8", "int4"),
    "fp16": ("fp8", "int8", "int4"),
    "fp8": ("int4",),
    "int8": ("int4",),
}
DOES_NOT_FIT = 1e6
"""Worse than anything that fits, however short of what is asked."""
OTHER_NETWORKS = ("ethernet-100g", "ethernet-10g")
WORTH_CUTTING, SHORT_CACHE = 1.1, 64
"""A cut that earns so many times what the taken layout does, while that holds fewer requests, is told."""


def shortfall(judge: Judge, candidate: Candidate, needs: Needs, cards: int | None = None) -> str:
    """What the layout fails at; empty where it will do."""
    speed, each = candidate.speed, candidate.layout.cards_per_replica
    if candidate.holds < 1:
        return _does_not_fit(judge, candidate)
    if candidate.holds < needs.concurrency:
        return (
            f"fits, but its KV cache holds {_counted(candidate.holds, 'request')} of {judge.load.tokens} "
            f"tokens at once where {needs.concurrency} are needed"
        )
    if cards is not None and each > cards:
        return f"takes {each} cards where there {'is 1' if cards == 1 else f'are {cards}'}"
    if speed is None:
        return f"fits, but cannot be held against limits: {candidate.unknown}" if needs.limited else ""
    for name, found, limit in (
        ("TPOT", speed.tpot_s, needs.tpot_s),
        ("TTFT", speed.ttft_s, needs.ttft_s),
    ):
        if limit and found > limit:
            many = _counted(speed.concurrency, "request")
            return f"fits, but {name} {_ms(found)} at {many} misses {_ms(limit)}"
    return ""


def lack(candidate: Candidate, needs: Needs, cards: int | None) -> float:
    """How many times too much it takes of what is shortest, to tell which layout comes nearest."""
    speed, account = candidate.speed, candidate.account
    if candidate.holds < 1:
        return DOES_NOT_FIT * account.total_bytes / account.usable_bytes
    return max(
        needs.concurrency / candidate.holds,
        candidate.layout.cards_per_replica / cards if cards else 0.0,
        speed.tpot_s / needs.tpot_s if speed and needs.tpot_s else 0.0,
        speed.ttft_s / needs.ttft_s if speed and needs.ttft_s else 0.0,
    )


def why(judge: Judge, taken: Candidate, needs: Needs, short: Mapping[Layout, str], *, asked: bool) -> str:
    """Why this one was taken; `short` is what each layout fails at."""
    layout, per_node = taken.layout, judge.interconnect.cards_per_node
    if short[layout]:
        return f"{'as asked, but' if asked else 'none will do, and this comes nearest:'} it {short[layout]}"
    room = f"its KV cache holds {_counted(taken.holds, 'request')} of {judge.load.tokens} tokens"
    room += " within the limits" * needs.limited
    if asked:
        return f"as asked: {room}"
    if layout.cards_per_replica == 1:
        return f"it fits on one card and {room}: copies scale by their number, and share no fault"
    if layout.cuts_across_machines(per_node):
        return f"nothing inside a machine will do: {room}, but every layer waits for the network"
    if layout.pipeline_parallel > 1:
        return f"no group inside a machine will do, so it is cut by layers: {room}"
    return f"{_one_card(short.get(Layout(), ''))}: the smallest group inside a machine that does, {room}"


def _one_card(short: str) -> str:
    """What one card fails at, in few words."""
    fits = short.startswith("fits, but ")
    return (
        f"one card will not do ({short.removeprefix('fits, but ')})" if fits else "one card does not hold it"
    )


def second_to(judge: Judge, candidate: Candidate, taken: Candidate) -> str:
    """Why a layout that would do as well is not taken."""
    told = candidate.unknown or _beside(candidate, taken)
    layout, per_node = candidate.layout, judge.interconnect.cards_per_node
    if layout.cuts_across_machines(per_node):
        return (
            f"its group spans {layout.machines_per_replica(per_node)} machines: {_across(judge, candidate)}"
        )
    if layout.pipeline_parallel > 1:
        more = f"{layout.cards_per_replica} cards die together, and " * (
            layout.cards_per_replica > taken.layout.cards_per_replica
        )
        return f"{more}a token passes its {layout.pipeline_parallel} stages one after the other: {told}"
    if layout.cards_per_replica < taken.layout.cards_per_replica:
        return f"fewer cards would do, but {taken.layout} was asked for: {told}"
    return f"more cards than it takes: {told}"


def warnings(judge: Judge, taken: Candidate) -> Iterator[str]:
    """What the layout that was taken costs beyond its cards."""
    yield from (note for note in taken.account.notes if "engines may refuse" in note)
    layout, per_node = taken.layout, judge.interconnect.cards_per_node
    nodes = layout.machines_per_replica(per_node)
    if layout.cuts_across_machines(per_node):
        yield f"the tensor-parallel group spans {nodes} machines: {_across(judge, taken)}"
    elif nodes > 1:
        yield f"a replica spans {nodes} machines: one that fails takes the replica with it"
    if taken.unknown:
        yield f"its speed is unknown: {taken.unknown}"
    if taken.account.unverified:
        yield f"unverified: {', '.join(taken.account.unverified)}"


def advice(judge: Judge, taken: Candidate, needs: Needs, others: Iterable[Candidate]) -> Iterator[str]:
    """What to try before cutting: fewer bits, whole experts; and where a cut would earn more than copies."""
    on_one = judge.judged(Layout(), needs.concurrency)
    is_cut = taken.layout.cards_per_replica > 1
    if is_cut and shortfall(judge, on_one, needs) and (bits := _on_one_card(judge, needs)):
        yield f"{bits} weights would fit on one card: try their quality before you cut"
    if judge.model.moe and any("no multiple of a scale" in note for note in taken.account.notes):
        yield "--enable-expert-parallel deals whole experts out: their columns stay uncut"
    earns = taken.output_tokens_per_s_per_card
    best = max(others, key=lambda other: other.output_tokens_per_s_per_card)
    if not best.output_tokens_per_s_per_card > WORTH_CUTTING * earns > 0:
        return
    more = (
        f"{best.layout} would earn {best.output_tokens_per_s_per_card:,.0f} tokens/s a card against "
        f"{earns:,.0f}"
    )
    if is_cut and not shortfall(judge, best, needs):
        yield f"{more}: take it where all that is written counts for more than one request's wait"
    elif not is_cut and taken.holds < SHORT_CACHE:
        yield (
            f"its cache is short, it holds {taken.holds} requests: {more}; fewer bits for weights or KV may "
            "earn that without a cut"
        )


def _does_not_fit(judge: Judge, candidate: Candidate) -> str:
    account = candidate.account
    left = account.usable_bytes - account.weights_bytes_per_rank - account.activation_bytes
    room = max(0, left - account.engine_overhead_bytes)
    return (
        f"does not fit: {_gb(account.weights_bytes_per_rank)} of weights on each card leave {_gb(room)} of "
        f"{_gb(account.usable_bytes)} for KV, and a request of {judge.load.tokens} tokens needs "
        f"{_gb(account.kv_bytes + account.state_bytes)}"
    )


def _beside(candidate: Candidate, taken: Candidate) -> str:
    """What both give."""
    if candidate.alone is None or taken.alone is None:
        return "speeds unknown"
    earns, theirs = candidate.output_tokens_per_s_per_card, taken.output_tokens_per_s_per_card
    return (
        f"{earns:,.0f} tokens/s a card against {theirs:,.0f}, TPOT of one request "
        f"{_ms(candidate.alone.tpot_s)} against {_ms(taken.alone.tpot_s)}"
    )


def _on_one_card(judge: Judge, needs: Needs) -> str:
    """The most bits a weight that let one card do."""
    for bits in FEWER_BITS.get(judge.weights, ()):
        if bits != "fp8" or judge.card.fp8_tflops:
            fewer = judge.with_weights(bits)
            if not shortfall(fewer, fewer.judged(Layout(), needs.concurrency), needs):
                return bits
    return ""


def _across(judge: Judge, candidate: Candidate) -> str:
    """What a group that spans machines pays at each step, over this network and others."""
    if candidate.alone is None:
        return candidate.unknown or _does_not_fit(judge, candidate)
    own, chunk = judge.interconnect.network, min(judge.load.prompt_tokens, judge.max_num_batched_tokens)
    networks = [facts.link(name) for name in dict.fromkeys((own, *OTHER_NETWORKS))]
    costs = [
        " and ".join(_ms(judge.wires_s(candidate.layout, tokens, network.id)) for tokens in (1, chunk))
        + f" over {network.id}"
        for network in networks
    ]
    share = judge.wires_s(candidate.layout, 1) / candidate.alone.tpot_s
    return (
        f"the allreduces of a token and of {chunk} prompt tokens take {', '.join(costs)}; that is "
        f"{share:.0%} of one request's TPOT over {own}"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:,.0f} MB" if 0 < size_bytes < 0.1e9 else f"{size_bytes / 1e9:,.1f} GB"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds < 0.9995 else f"{seconds:,.3g} s"
