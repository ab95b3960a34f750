"""The ledger drawn: a stacked bar against the card's memory, and the see-saw that moves it."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt

from kilocard.facts import Card, Model
from kilocard.memory import Ledger, ledger
from kilocard.notebook import style
from kilocard.notebook.figures.curves import mark
from kilocard.notebook.interactive import Frame, Segment, Slider, stacked_bar
from kilocard.record import Stamp

PARTS = (
    ("weights", "weights", style.WEIGHTS),
    ("KV cache", "kv", style.KV),
    ("state", "state", style.STATE),
    ("activations and engine", "overhead", style.OVERHEAD),
)
WEIGHTS = ("bf16", "fp8", "int4")
KV = ("bf16", "fp8")
CONCURRENCY = (1, 2, 4, 8, 16, 32, 64, 128)
CONTEXT = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


def parts_gb(account: Ledger) -> tuple[float, ...]:
    """The ledger's parts in GB (10^9), in the order in which they are drawn."""
    sizes = (
        account.weights_bytes_per_rank,
        account.kv_bytes,
        account.state_bytes,
        account.activation_bytes + account.engine_overhead_bytes,
    )
    return tuple(size / 1e9 for size in sizes)


def ledger_figure(accounts: Mapping[str, Ledger], *, title: str, stamp: Stamp | str) -> None:
    """One stacked bar an account, against the memory of the card and the share the engine may use."""
    first = next(iter(accounts.values()))
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 0.9 + 0.62 * len(accounts)))
        for place, account in enumerate(accounts.values()):
            left = 0.0
            for (_, _, colour), size in zip(PARTS, parts_gb(account), strict=True):
                axes.barh(place, size, left=left, color=colour, height=0.62)
                left += size
        for name, _, colour in PARTS:
            axes.barh(0, 0, color=colour, label=name)
        mark(axes, first.usable_bytes / 1e9, "engine's share", style.INK)
        mark(axes, first.memory_bytes / 1e9, "", style.FAINT)
        axes.set_yticks(range(len(accounts)), accounts)
        axes.invert_yaxis()
        axes.set_xlabel("GB (10⁹ bytes); the last line is the card's memory")
        axes.grid(axis="y", visible=False)
        figure.legend(loc="outside upper center", ncols=2)
        style.show(figure, title=title, alt=_alt(accounts), stamp=stamp)


def _alt(accounts: Mapping[str, Ledger]) -> str:
    said = []
    for name, account in accounts.items():
        sizes = ", ".join(
            f"{part[0]} {size:.1f}" for part, size in zip(PARTS, parts_gb(account), strict=True)
        )
        said.append(f"{name}: {sizes}; {_of_usable(account)} usable")
    return "Memory in GB. " + "; ".join(said) + "."


def ledger_see_saw(model: Model, card: Card, *, title: str, stamp: Stamp | str) -> None:
    """The ledger under sliders for weights, KV, people and context; no kernel is needed to move them."""
    sliders = (
        Slider("Weights", tuple(name.upper() for name in WEIGHTS), 2),
        Slider("KV cache", tuple(name.upper() for name in KV)),
        Slider("People at once", tuple(map(str, CONCURRENCY)), 3),
        Slider("Tokens each", tuple(f"{tokens:,}" for tokens in CONTEXT), 2),
    )

    def frame(setting: tuple[int, ...]) -> Frame:
        weights, kv, people, tokens = setting
        account = ledger(model, card, weights=WEIGHTS[weights], kv=KV[kv], context=CONTEXT[tokens],
                         concurrency=CONCURRENCY[people])  # fmt: skip
        return Frame(parts_gb(account), _readout(account))

    stacked_bar(
        title=title,
        sliders=sliders,
        segments=[Segment(*part) for part in PARTS],
        frame=frame,
        limit=0.9 * card.memory_bytes / 1e9,
        limit_name="the engine's share",
        scale=card.memory_bytes / 1e9,
        unit="GB",
        stamp=stamp,
    )


def _readout(account: Ledger) -> str:
    if account.fits:
        return f"Fits: {_of_usable(account)}. At this length {account.max_concurrency:,} would fit at once."
    would = f"{account.max_concurrency:,}" if account.max_concurrency else "not even one"
    return f"Does not fit: {_of_usable(account)}. At this length {would} would."


def _of_usable(account: Ledger) -> str:
    return f"{account.total_bytes / 1e9:.1f} of {account.usable_bytes / 1e9:.1f} GB"
