"""Layouts beside each other: what a card earns in each, and how long one request waits for a token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt

from kilocard.layout import Candidate, Choice, Judge, Load
from kilocard.memory import Ledger
from kilocard.notebook import style
from kilocard.notebook.figures.tables import table
from kilocard.notebook.interactive import Frame, Segment, Slider, stacked_bar
from kilocard.parallel.layout import Layout
from kilocard.record import Stamp

SLIDER_WEIGHTS = ("bf16", "fp8", "int4")
SLIDER_DEGREES = (1, 2, 4, 8)
SHARES = (
    Segment("weights", "weights", style.WEIGHTS),
    Segment("activations and engine", "overhead", style.OVERHEAD),
    Segment("left for the KV cache", "kv", style.KV),
)


def layouts_figure(
    groups: Mapping[str, Sequence[Candidate]],
    *,
    title: str,
    stamp: Stamp | str,
    taken: Sequence[Layout] = (),
) -> None:
    """A point a layout: across, one request's TPOT; up, tokens/s a card; a group of layouts is joined."""
    with style.look():
        figure, axes = plt.subplots()
        for (name, candidates), colour in zip(groups.items(), style.SERIES, strict=False):
            points = [_point(candidate) for candidate in candidates]
            axes.plot(*zip(*points, strict=True), color=colour, linewidth=1.1, label=f"{name} (derived)")
            for candidate, point in zip(candidates, points, strict=True):
                is_taken = candidate.layout in taken
                face = colour if is_taken else "none"
                axes.plot(*point, marker="o", markersize=7, color=colour, markerfacecolor=face)
                axes.annotate(str(candidate.layout), point, xytext=(6, 5), textcoords="offset points",
                              fontsize=9.5)  # fmt: skip
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.12, y=0.1)
        axes.set_xlabel("TPOT of one request alone, ms")
        axes.set_ylabel("Tokens/s a card, full")
        if len(groups) > 1:
            axes.legend()
        style.show(figure, title=title, alt=_alt(groups), stamp=stamp)


def choice_table(choice: Choice, *, title: str, stamp: Stamp | str) -> None:
    """The layout that was taken, and every other with the reason why it was not."""
    rows: list[tuple[object, ...]] = [(f"→ {choice.layout}", *_numbers(choice.candidate), choice.reason)]
    rows += [(str(one.layout), *_numbers(one.candidate), one.reason) for one in choice.rejected]
    table(["layout", "tokens/s a card", "TPOT alone, ms", "why, or why not"], rows, title=title, stamp=stamp)


def layouts_slider(
    models: Sequence[str],
    judges: Mapping[str, Judge],
    *,
    title: str,
    stamp: str,
    start_card: str = "h100-sxm",
) -> None:
    """Model × card × weights × degree under sliders: what fits, and what it gives; no kernel is needed."""
    cards = tuple(judges)
    sliders = (
        Slider("Model", tuple(models), min(1, len(models) - 1)),
        Slider("Card", cards, cards.index(start_card) if start_card in cards else 0),
        Slider("Weights", tuple(name.upper() for name in SLIDER_WEIGHTS)),
        Slider("Cards a replica (TP)", tuple(map(str, SLIDER_DEGREES)), 1),
    )

    def frame(setting: tuple[int, ...]) -> Frame:
        model, card, weights, degree = setting
        judge = judges[cards[card]].of(models[model], SLIDER_WEIGHTS[weights])
        return layout_frame(judge, SLIDER_DEGREES[degree])

    stacked_bar(
        title=title, sliders=sliders, segments=SHARES, frame=frame, limit=90.0,
        limit_name="the engine's share", scale=100.0, unit="% of a card", stamp=stamp,
    )  # fmt: skip


def layout_frame(judge: Judge, degree: int) -> Frame:
    """One setting: the shares of a card's memory, and what the layout gives in a sentence."""
    if found := judge.obstacle(degree):
        return Frame((0.0, 0.0, 0.0), f"TP {degree} cannot be: {found}.")
    candidate = judge.judged(Layout(degree))
    return Frame(_shares(candidate.account), gives(candidate, judge.load))


def gives(candidate: Candidate, load: Load) -> str:
    """Whether it fits, how many it holds, what a card earns and one request waits."""
    layout = candidate.layout
    if not candidate.holds:
        return f"{layout} does not fit: no request of {load.tokens:,} tokens has room."
    held = f"{layout} fits and holds {candidate.holds:,} requests of {load.tokens:,} tokens"
    if candidate.speed is None or candidate.alone is None:
        return f"{held}; its speed is unknown: {candidate.unknown}."
    return (
        f"{held}: {candidate.output_tokens_per_s_per_card:,.0f} tokens/s a card at "
        f"{candidate.speed.concurrency} requests, TPOT {candidate.speed.tpot_s * 1e3:.1f} ms there and "
        f"{candidate.alone.tpot_s * 1e3:.1f} ms alone."
    )


def _shares(account: Ledger) -> tuple[float, float, float]:
    per_cent = 100 / account.memory_bytes
    beside = account.activation_bytes + account.engine_overhead_bytes
    left = max(0, account.usable_bytes - account.weights_bytes_per_rank - beside)
    return account.weights_bytes_per_rank * per_cent, beside * per_cent, left * per_cent


def _point(candidate: Candidate) -> tuple[float, float]:
    assert candidate.alone, "a layout that is drawn fits, and its speed is known"
    return candidate.alone.tpot_s * 1e3, candidate.output_tokens_per_s_per_card


def _numbers(candidate: Candidate | None) -> tuple[float | None, float | None]:
    if candidate is None or candidate.alone is None:
        return None, None
    return float(round(candidate.output_tokens_per_s_per_card)), candidate.alone.tpot_s * 1e3


def _alt(groups: Mapping[str, Sequence[Candidate]]) -> str:
    told = [
        f"{name}: "
        + ", ".join(
            f"{candidate.layout} {x:.1f} ms and {y:,.0f} tokens/s a card"
            for candidate in candidates
            for x, y in [_point(candidate)]
        )
        for name, candidates in groups.items()
    ]
    return f"Tokens/s a card on TPOT of one request. {'; '.join(told)}."
