"""How the cards of boxes are wired: a cell for each pair, darker the farther, its class written in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from kilocard.notebook import style
from kilocard.record import Stamp
from kilocard.topology import TopologyMatrix, islands
from kilocard.topology.links import MEANINGS, NEARNESS, SELF, distance, kind_of

ROW_INCHES = 0.32
FAST = (style.KV, 0.4)
PCIE = {"PIX": 0.1, "PXB": 0.18, "PHB": 0.26, "NODE": 0.42, "SYS": 0.7}
"""How much of the one hue of PCIe a class has: the farther the more."""


def topology_figure(boxes: Mapping[str, TopologyMatrix], *, title: str, stamp: Stamp | str) -> None:
    """The cards of each named box against each other, one box beneath the other."""
    with style.look():
        rows = [len(matrix.cards) for matrix in boxes.values()]
        figure, all_axes = plt.subplots(
            len(boxes), 1, squeeze=False, height_ratios=rows,
            figsize=(6.4, ROW_INCHES * sum(rows) + 0.62 * len(boxes)),
        )  # fmt: skip
        for axes, (name, matrix) in zip(all_axes[:, 0], boxes.items(), strict=True):
            _draw(axes, name, matrix)
        words = "; ".join(f"{name}: {_said(matrix)}" for name, matrix in boxes.items())
        style.show(figure, title=title, alt=f"Links between the cards of each box. {words}.", stamp=stamp)


def _draw(axes: plt.Axes, name: str, matrix: TopologyMatrix) -> None:
    count = len(matrix.cards)
    for a, links in enumerate(matrix.card_links):
        for b, link in enumerate(links):
            colour, alpha = _look_of(link)
            axes.add_patch(Rectangle((b, a), 0.96, 0.92, facecolor=colour, alpha=alpha, linewidth=0))
            shown = "" if link == SELF else link
            axes.text(b + 0.48, a + 0.47, shown, ha="center", va="center", fontsize=12.5)
    numbers = [card.removeprefix("GPU") for card in matrix.cards]
    axes.set(xlim=(0, count), ylim=(count, 0))
    axes.set_xticks([place + 0.48 for place in range(count)], numbers)
    axes.set_yticks([place + 0.46 for place in range(count)], [_row_name(matrix, at) for at in range(count)])
    axes.tick_params(length=0, labelsize=12)
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_title(name, loc="left", fontsize=12.5, pad=6)


def _look_of(link: str) -> tuple[str, float]:
    kind = kind_of(link)
    if kind == "NV":
        return FAST
    return (style.PREFILL, PCIE[kind]) if kind else (style.FAINT, 0.12)


def _row_name(matrix: TopologyMatrix, card: int) -> str:
    node = matrix.numa_nodes[card]
    return matrix.cards[card] if node is None else f"{matrix.cards[card]}, node {node}"


def _said(matrix: TopologyMatrix) -> str:
    count = range(len(matrix.cards))
    pairs = Counter(matrix.card_links[a][b] for a in count for b in count if a < b)
    kinds = ", ".join(f"{pairs[link]} pairs by {_meaning(link)}" for link in sorted(pairs, key=distance))
    largest = max(map(len, islands(matrix)))
    return f"{len(matrix.cards)} cards, {kinds}; the largest island has {largest}"


def _meaning(link: str) -> str:
    kind = kind_of(link)
    return f"{link} ({MEANINGS[kind]})" if kind in NEARNESS else f"{link} (unknown)"
