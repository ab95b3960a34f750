"""Why a layout is taken or not, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
OTHER_NETWORKS = ("ethernet-100g", "ethernet-10g")
WORTH_CUTTING, SHORT_CACHE = 1.1, 64
"""A cut that earns so many times what the taken layout does, while that holds fewer requests, is told."""


def shortfall(judge: Judge, candidate: Candidate, needs: Needs) -> str:
    """What the layout fails at; empty where it will do."""
    speed = candidate.speed
    if candidate.holds < 1:
        return _does_not_fit(judge, candidate)
    if candidate.holds < needs.concurrency:
        return (
            f"fits, but its KV cache holds {candidate.holds} requests of {judge.load.tokens} tokens at once "
            f"where {needs.concurrency} are needed"
        )
    if speed is None:
        limited = needs.tpot_s or needs.ttft_s
        return f"fits, but cannot be held against limits: {candidate.unknown}" if limited else ""
    if needs.tpot_s and speed.tpot_s > needs.tpot_s:
        return (
            f"fits, but TPOT {_ms(speed.tpot_s)} at {speed.concurrency} requests misses {_ms(needs.tpot_s)}"
        )
    if needs.ttft_s and speed.ttft_s > needs.ttft_s:
        return (
            f"fits, but TTFT {_ms(speed.ttft_s)} at {speed.concurrency} requests misses {_ms(needs.ttft_s)}"
        )
    return ""


def why(judge: Judge, taken: Candidate, needs: Needs, single: Candidate | None, cards: int | None) -> str:
    """Why this one was taken; `single` is what one card does."""
    layout, per_node = taken.layout, judge.interconnect.cards_per_node
    if cards is not None and cards < layout.cards_per_replica:
        return f"of the {cards} cards none will do it: {layout} needs {layout.cards_per_replica}"
    if short := shortfall(judge, taken, needs):
        return f"no layout will do; this one comes nearest: it {short}"
    room = f"its KV cache holds {taken.holds} requests of {judge.load.tokens} tokens"
    room += " within the limits" * bool(needs.tpot_s or needs.ttft_s)
    if layout.cards_per_replica == 1:
        return f"it fits on one card and {room}: copies scale by their number, and share no fault"
    if layout.cuts_across_machines(per_node):
        return f"{room}, but every layer waits for the network"
    if layout.cards_per_replica > per_node:
        return f"no machine holds the model: cut inside each, a stage a machine, {room}"
    if layout.pipeline_parallel > 1:
        return f"cut by layers, as asked: {room}"
    return f"{_one_card(judge, single, needs)}: the smallest group inside a machine that does, {room}"


def second_to(judge: Judge, candidate: Candidate, taken: Candidate) -> str:
    """Why a layout that would do as well is not taken."""
    told = candidate.unknown or _beside(candidate, taken)
    layout, per_node = candidate.layout, judge.interconnect.cards_per_node
    if layout.cuts_across_machines(per_node):
        return (
            f"its group spans {-(-layout.tensor_parallel // per_node)} machines: {_across(judge, candidate)}"
        )
    if layout.pipeline_parallel > 1:
        return f"a token passes its {layout.pipeline_parallel} stages one after the other: {told}"
    if layout.cards_per_replica < taken.layout.cards_per_replica:
        return f"fewer cards would do, but {taken.layout} was asked for: {told}"
    return f"more cards than it takes: {told}"


def warnings(judge: Judge, taken: Candidate) -> Iterator[str]:
    """What the layout that was taken costs beyond its cards."""
    yield from (note for note in taken.account.notes if "engines may refuse" in note)
    layout, per_node = taken.layout, judge.interconnect.cards_per_node
    nodes = -(-layout.cards_per_replica // per_node)
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
    if taken.layout.cards_per_replica > 1 and (bits := _on_one_card(judge, needs)):
        yield f"{bits} weights would fit on one card: try their quality before you cut"
    if judge.model.moe and any("no multiple of a scale" in note for note in taken.account.notes):
        yield "--enable-expert-parallel deals whole experts out: their columns stay uncut"
    earns = taken.output_tokens_per_s_per_card
    best = max(others, key=lambda other: other.output_tokens_per_s_per_card)
    if best.output_tokens_per_s_per_card > WORTH_CUTTING * earns > 0 and taken.holds < SHORT_CACHE:
        yield (
            f"its cache is short, it holds {taken.holds} requests: {best.layout} would earn "
            f"{best.output_tokens_per_s_per_card:,.0f} tokens/s a card against {earns:,.0f}; fewer bits for "
            "weights or KV may earn that without a cut"
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


def _one_card(judge: Judge, single: Candidate | None, needs: Needs) -> str:
    """What one card fails at, in few words."""
    if single is None or single.holds < 1:
        return "one card does not hold it"
    short = shortfall(judge, single, needs)
    return f"one card would hold it: it {short}" if short else "one card would do"


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


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:,.1f} GB"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds < 0.9995 else f"{seconds:,.3g} s"
