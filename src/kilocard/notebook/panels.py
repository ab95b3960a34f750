"""Panels for a live kernel: the same functions as the figures, under widgets."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets as widgets

from kilocard.errors import KilocardError
from kilocard.facts import cards, models
from kilocard.layout import Load, choose_layout
from kilocard.memory import Ledger, ledger
from kilocard.notebook.figures.layouts import gives
from kilocard.notebook.layouts import judge
from kilocard.parallel.layout import Layout

WEIGHTS = ("bf16", "fp8", "int8", "int4")
KV = ("bf16", "fp8")
LENGTHS = [2**power for power in range(6, 15)]
NETWORKS = ("rdma-400g", "rdma-200g", "ethernet-100g", "ethernet-25g", "ethernet-10g")
_NOTE = "This panel needs a live kernel: open this notebook with `make lab`."


class Panel(widgets.VBox):  # type: ignore[misc]
    """A box of widgets that says, where it cannot be shown, what it needs."""

    def __repr__(self, *_: Any) -> str:
        return _NOTE


def ledger_panel(model: str = "qwen3.8-27b", card: str = "k100-ai") -> Panel:
    """The memory ledger of any model on any card; moves as its widgets do."""
    chosen = {
        "model": widgets.Dropdown(options=sorted(models()), value=model, description="model"),
        "card": widgets.Dropdown(options=sorted(cards()), value=card, description="card"),
        "weights": widgets.Dropdown(options=WEIGHTS, value="int4", description="weights"),
        "kv": widgets.Dropdown(options=KV, description="KV"),
        "context": widgets.SelectionSlider(options=[2**power for power in range(9, 18)], value=4096,
                                           description="context"),
        "concurrency": widgets.IntSlider(min=1, max=256, value=8, description="people"),
        "tp": widgets.SelectionSlider(options=[1, 2, 4, 8], value=1, description="TP"),
    }  # fmt: skip
    answer = widgets.HTML()

    def redraw(_: object = None) -> None:
        settings = {name: widget.value for name, widget in chosen.items()}
        answer.value = _answer(settings.pop("model"), settings.pop("card"), settings)

    for widget in chosen.values():
        widget.observe(redraw, names="value")
    redraw()
    return Panel([*chosen.values(), answer])


def layout_panel(model: str = "llama-3.1-70b", card: str = "h100-sxm") -> Panel:
    """Model × card × layout, for any load: what fits, tokens/s a card, latency; and what would be taken."""
    chosen = {
        "model": widgets.Dropdown(options=sorted(models()), value=model, description="model"),
        "card": widgets.Dropdown(options=sorted(cards()), value=card, description="card"),
        "weights": widgets.Dropdown(options=WEIGHTS, value="fp8", description="weights"),
        "tp": widgets.SelectionSlider(options=[1, 2, 4, 8, 16], value=2, description="TP"),
        "pp": widgets.SelectionSlider(options=[1, 2, 4, 8], value=1, description="PP"),
        "prompt": widgets.SelectionSlider(options=LENGTHS, value=1024, description="prompt"),
        "answer": widgets.SelectionSlider(options=LENGTHS, value=512, description="answer"),
        "network": widgets.Dropdown(options=NETWORKS, description="network"),
    }
    answer = widgets.HTML()

    def redraw(_: object = None) -> None:
        answer.value = _judged(**{name: widget.value for name, widget in chosen.items()})

    for widget in chosen.values():
        widget.observe(redraw, names="value")
    redraw()
    return Panel([*chosen.values(), answer])


def _judged(
    *, model: str, card: str, weights: str, tp: int, pp: int, prompt: int, answer: int, network: str
) -> str:
    """The layout asked for, and the one that the rule takes."""
    try:
        judging = judge(model, card, weights, load=Load(prompt, answer), network=network)
        candidate = judging.judged(Layout(tp, pp))
        taken = choose_layout(judging)
    except KilocardError as error:
        return f"<b>No:</b> {html.escape(str(error))}"
    told = html.escape(gives(candidate, judging.load))
    return f"<p>{told}</p><p>The rule takes <b>{taken.layout}</b>: {html.escape(taken.reason)}.</p>"


def _answer(model: str, card: str, settings: dict[str, Any]) -> str:
    try:
        return _account(ledger(model, card, **settings))
    except KilocardError as error:
        return f"<b>No:</b> {error}"


def _account(account: Ledger) -> str:
    gb = {
        "weights": account.weights_bytes_per_rank,
        "KV cache": account.kv_bytes,
        "state": account.state_bytes,
        "activations": account.activation_bytes,
        "engine": account.engine_overhead_bytes,
    }
    lines = "".join(
        f"<tr><td>{name}</td><td align=right>{size / 1e9:.2f} GB</td></tr>" for name, size in gb.items()
    )
    verdict = "fits" if account.fits else "does not fit"
    size = f"{account.total_bytes / 1e9:.1f} of {account.usable_bytes / 1e9:.1f} GB a rank"
    most = f"Up to {account.max_concurrency:,} people at this length."
    return f"<table>{lines}</table><b>{size}: {verdict}.</b> {most}"
