"""What `nvidia-smi topo -m` prints, as a value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kilocard.errors import KilocardError
from kilocard.topology.cores import parse_cores
from kilocard.topology.links import SELF, is_link

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
CARD = re.compile(r"GPU\d{1,4}", re.ASCII)
TAIL = re.compile(r"\s*CPU Affinity.*$")
LEGEND_LINE = re.compile(r"\s*(NIC\d+)\s*:\s*(\S+)\s*$", re.ASCII)


@dataclass(frozen=True, slots=True)
class TopologyMatrix:
    """Links between the cards of a box and to its NICs, and the cores beside each card.

    A link is named as the tool names it (NV18, PIX, PXB, PHB, NODE, SYS); X is the card itself.
    """

    cards: tuple[str, ...]
    card_links: tuple[tuple[str, ...], ...]
    """By card and card."""
    nics: tuple[str, ...] = ()
    nic_links: tuple[tuple[str, ...], ...] = ()
    """By card and NIC."""
    cores: tuple[tuple[int, ...] | None, ...] = ()
    """Beside each card; None where the tool names none."""
    numa_nodes: tuple[int | None, ...] = ()
    """Of each card; None where the tool names none, or several."""

    def __post_init__(self) -> None:
        count = len(self.cards)
        rows = (self.card_links, self.nic_links, self.cores, self.numa_nodes)
        if not count or any(len(row) != count for row in rows):
            raise KilocardError(f"a matrix of {count} cards needs a row of links, cores and node for each")
        if len(set(self.cards)) != count:
            raise KilocardError(f"a card is named twice: {', '.join(self.cards)}")
        for card, links, to_nics in zip(self.cards, self.card_links, self.nic_links, strict=True):
            _check_row(card, links, count)
            _check_row(card, to_nics, len(self.nics))
        for a in range(count):
            _check_pairs(self.cards, self.card_links, a)


def parse_topology(text: str) -> TopologyMatrix:
    """The matrix in the output of `nvidia-smi topo -m`, colours, legends and old forms included."""
    lines = [line.rstrip("\r") for line in ANSI.sub("", text).splitlines()]
    columns, tail, start = _header(lines)
    rows = _card_rows(lines[start:], columns)
    cards = [name for name in columns if CARD.fullmatch(name)]
    if missing := [name for name in cards if name not in rows]:
        raise KilocardError(
            f"the matrix has a column but no row for {', '.join(missing[:8])}: give all its lines"
        )
    legend = {named[1]: named[2] for line in lines if (named := LEGEND_LINE.fullmatch(line))}
    at = {True: _places(columns, True), False: _places(columns, False)}
    cells = [_cells(rows[card], len(columns), tail) for card in cards]
    for card, (links, _, _) in zip(cards, cells, strict=True):
        _check_row(card, links, len(columns))
    return TopologyMatrix(
        cards=tuple(cards),
        card_links=tuple(tuple(links[i] for i in at[True]) for links, _, _ in cells),
        nics=tuple(legend.get(columns[i], columns[i]) for i in at[False]),
        nic_links=tuple(tuple(links[i] for i in at[False]) for links, _, _ in cells),
        cores=tuple(_cores(affinity) for _, affinity, _ in cells),
        numa_nodes=tuple(int(node) if node.isascii() and node.isdigit() else None for _, _, node in cells),
    )


def _header(lines: Sequence[str]) -> tuple[list[str], int, int]:
    """The names of the devices' columns, how many columns follow them, and the first line after."""
    for number, line in enumerate(lines):
        names = TAIL.sub("", line).split()
        if names and CARD.fullmatch(names[0]) and not any(is_link(name) for name in names):
            tail = sum(title in line for title in ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID"))
            if len(set(names)) != len(names):
                raise KilocardError(f"the matrix names a column twice: {' '.join(names)[:80]}")
            return names, tail, number + 1
    shown = next((line.strip() for line in lines if line.strip()), "")[:60]
    raise KilocardError(
        f"no matrix of cards in this text (it begins {shown!r}): give what `nvidia-smi topo -m` prints"
    )


def _places(columns: Sequence[str], of_cards: bool) -> list[int]:
    return [i for i, name in enumerate(columns) if (CARD.fullmatch(name) is not None) is of_cards]


def _card_rows(lines: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    rows: dict[str, str] = {}
    for line in lines:
        name = (line.split() or [""])[0]
        if CARD.fullmatch(name) and name in columns:
            if name in rows:
                raise KilocardError(f"the matrix has two rows {name}")
            rows[name] = line.strip(" ")
    return rows


def _cells(row: str, columns: int, tail: int) -> tuple[list[str], str, str]:
    """The links of a row, its CPU affinity and its NUMA affinity; an empty text where a cell is empty."""
    by_tab = [cell.strip() for cell in row.split("\t")]
    if len(by_tab) > columns:
        affinity, node, *_ = [*by_tab[columns + 1 :], "", ""]
        return by_tab[1 : columns + 1], affinity, node
    by_space = row.split()
    return by_space[1 : columns + 1], *_told_apart(by_space[columns + 1 :], tail)


def _told_apart(rest: Sequence[str], tail: int) -> tuple[str, str]:
    """CPU and NUMA affinity where spaces hide which cell is empty: only lists of cores hold - or , here."""
    if len(rest) >= min(tail, 2) + (tail == 3):
        return (*rest, "", "")[0], (*rest, "", "")[1]
    if not rest:
        return "", ""
    is_list = bool(re.search(r"\d[-,]", rest[0]))
    return (rest[0], "") if is_list else ("", rest[0] if len(rest) > 1 or tail == 2 else "")


def _cores(affinity: str) -> tuple[int, ...] | None:
    return parse_cores(affinity) if affinity[:1].isdigit() else None


def _check_row(card: str, links: Sequence[str], count: int) -> None:
    if len(links) != count:
        raise KilocardError(f"row {card} names {len(links)} links for {count} columns")
    if unknown := next((link for link in links if not is_link(link)), None):
        raise KilocardError(
            f"row {card} names a link {unknown[:20]!r}: known are NV#, PIX, PXB, PHB, NODE, SYS"
        )


def _check_pairs(cards: Sequence[str], links: Sequence[Sequence[str]], a: int) -> None:
    if links[a][a] != SELF:
        raise KilocardError(f"row {cards[a]} has no X for the card itself")
    for b in range(a):
        there, back = links[b][a], links[a][b]
        if there != back or there == SELF:
            raise KilocardError(f"{cards[b]} to {cards[a]} is {there}, and back it is {back}: no such box")
