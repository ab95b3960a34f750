"""An exercise: a decision with a number, checked where the reader stands."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real

from IPython.display import HTML, display

from kilocard.errors import KilocardError


@dataclass(frozen=True, slots=True)
class Exercise:
    """One question whose answer is a number that the package computes.

    `mistakes` maps the number that a usual slip gives to what the slip was.
    """

    name: str
    answer: Callable[[], float]
    unit: str
    solution: Callable[[float], str]
    tolerance_ratio: float = 0.1
    mistakes: Callable[[], Mapping[str, float]] = field(default=dict)

    def verdict(self, given: float | None) -> str:
        """Right, or wrong by how much, and which assumption usually goes wrong."""
        if given is None:
            return "Not answered yet: put your number in place of None and run the cell again."
        expected = self.answer()
        if _close(given, expected, self.tolerance_ratio):
            return f"Right: {_number(expected)} {self.unit}, and you said {_number(given)}."
        for slip, value in self.mistakes().items():
            if _close(given, value, self.tolerance_ratio / 2):
                return f"Not yet: {_number(given)} {self.unit} is what you get when {slip}."
        if given <= 0:
            return f"Not yet: the answer is a positive number of {self.unit}."
        factor = given / expected
        size = f"{factor:.3g} times too large" if factor > 1 else f"{1 / factor:.3g} times too small"
        return f"Not yet: {_number(given)} {self.unit} is {size}."


def show(exercise: Exercise, given: float | None) -> None:
    """Say right or wrong, and fold the worked solution beneath."""
    if given is not None and (isinstance(given, bool) or not _is_finite(given)):
        raise KilocardError(f"the answer to {exercise.name} is a number of {exercise.unit}, not {given!r}")
    verdict = html.escape(exercise.verdict(given))
    solution = html.escape(exercise.solution(exercise.answer()))
    display(
        HTML(
            f'<div class="kc-exercise"><p class="kc-verdict"><strong>Exercise {exercise.name}.</strong> '
            f"{verdict}</p><details><summary>Solution</summary><p>{solution}</p></details></div>"
        )
    )


def _is_finite(given: object) -> bool:
    return isinstance(given, Real) and math.isfinite(given)


def _close(given: float, expected: float, ratio: float) -> bool:
    return abs(given - expected) <= ratio * abs(expected)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
