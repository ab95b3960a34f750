"""Placement as a mixed-integer program: how many replicas of each pool stand in each cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilocard.planning.building import Cell

TIME_LIMIT_S = 20.0
GAP = 0.02
"""How far from the most even placement is even enough."""


@dataclass(frozen=True, slots=True)
class Limits:
    """By pool, the most replicas in a rack and in a power domain; None where any number may."""

    rack: tuple[int | None, ...]
    power: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Solution:
    """`counts` of replicas by pool and cell; the most of each pool in one rack and in one power domain."""

    counts: tuple[tuple[int, ...], ...]
    most_in_rack: tuple[int, ...]
    most_in_power: tuple[int, ...]


def solve(
    sizes: Sequence[tuple[int, int]],
    cells: Sequence[Cell],
    per_node: int,
    limits: Limits,
    *,
    is_even: bool = True,
    weigh: Callable[[int], tuple[float, float]] = lambda p: (1.0, 1.0),
) -> Solution | None:
    """Replicas of (count, cards) in cells within limits, with the least sum of what one rack and one power
    domain hold of each pool (`weigh`, by pool); None where nothing is within them.

    Columns: counts [pool, cell], then of each pool the most in a rack and in a domain. A replica larger than
    a node takes whole ones of one cell, so at most ⌊nodes ÷ its nodes⌋ of them stand there.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    pools, many = len(sizes), len(cells)
    columns = pools * many + 2 * pools
    rows: list[tuple[list[int], list[float], float, float]] = []
    for p, (count, _) in enumerate(sizes):
        rows.append(([p * many + c for c in range(many)], [1.0] * many, count, count))
    for c, cell in enumerate(cells):
        taken = [float(-(-cards // per_node) * per_node if cards > per_node else cards) for _, cards in sizes]
        rows.append(([p * many + c for p in range(pools)], taken, 0, per_node * len(cell.nodes)))
    for kind, base in (("rack", pools * many), ("power", pools * many + pools)):
        for place in sorted({getattr(cell, kind) for cell in cells}):
            mine = [c for c, cell in enumerate(cells) if getattr(cell, kind) == place]
            for p in range(pools):
                at = [p * many + c for c in mine]
                rows.append(([*at, base + p], [*([1.0] * len(at)), -1.0], -np.inf, 0))
    upper = np.full(columns, np.inf)
    for p, (count, cards) in enumerate(sizes):
        for c, cell in enumerate(cells):
            whole = len(cell.nodes) // -(-cards // per_node) if cards > per_node else count
            fits = len(cell.nodes) * (per_node // cards) if cards <= per_node else whole
            upper[p * many + c] = min(count, fits)
        for most, base in ((limits.rack[p], pools * many), (limits.power[p], pools * many + pools)):
            upper[base + p] = count if most is None else most
    costs = np.zeros(columns)
    if is_even:
        for p in range(pools):
            costs[pools * many + p], costs[pools * many + pools + p] = weigh(p)
    entries = [
        (k, column, value)
        for k, (where, values, _, _) in enumerate(rows)
        for column, value in zip(where, values, strict=True)
    ]
    matrix = coo_array(
        ([it[2] for it in entries], ([it[0] for it in entries], [it[1] for it in entries])),
        shape=(len(rows), columns),
    )
    bounds = LinearConstraint(matrix.tocsr(), [row[2] for row in rows], [row[3] for row in rows])
    found = milp(
        costs,
        constraints=bounds,
        bounds=Bounds(np.zeros(columns), upper),
        integrality=np.ones(columns),
        options={"time_limit": TIME_LIMIT_S, "mip_rel_gap": GAP},
    )
    if found.x is None:
        return None
    return _solution(np.rint(found.x).astype(int), pools, cells)


def _solution(x: NDArray[np.int64], pools: int, cells: Sequence[Cell]) -> Solution:
    counts = x[: pools * len(cells)].reshape(pools, len(cells))

    def most(kind: str) -> tuple[int, ...]:
        places = np.array([getattr(cell, kind) for cell in cells])
        sums = [np.bincount(places, weights=row) for row in counts]
        return tuple(int(each.max()) for each in sums)

    return Solution(tuple(tuple(map(int, row)) for row in counts), most("rack"), most("power"))
