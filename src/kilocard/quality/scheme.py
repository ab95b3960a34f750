"""How weights are rounded: bits, how many share a scale, and where the scale's zero lies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from kilocard.errors import KilocardError

SCALE_BITS = 16
FEWEST_BITS, MOST_BITS = 2, 8


@dataclass(frozen=True, slots=True)
class Scheme:
    """Round to nearest: `bits` a weight, one scale for each `group` of inputs (None: a whole row).

    `symmetric` levels lie around zero; else they run from the group's least weight to its largest, and its
    least is stored beside the scale.
    """

    name: str
    bits: int
    group: int | None = None
    symmetric: bool = False

    def __post_init__(self) -> None:
        if not FEWEST_BITS <= self.bits <= MOST_BITS:
            raise KilocardError(f"{self.name}: {self.bits} bits a weight; give {FEWEST_BITS} to {MOST_BITS}")
        if self.group is not None and self.group < 1:
            raise KilocardError(f"{self.name}: a group of {self.group} weights; give at least 1, or None")

    def bits_per_weight(self, inputs: int) -> float:
        """Bits that a weight takes with its share of the scale, in rows of `inputs` weights."""
        stored = SCALE_BITS if self.symmetric else 2 * SCALE_BITS
        return self.bits + stored / (self.group or inputs)

    def expected_error(self, inputs: int) -> float:
        """The rounding error of normally distributed weights, as a share of their spread.

        The levels divide the range that a group is expected to span; a weight lies anywhere between two of
        them, so its error has the spread of a uniform one, distance / √12.
        """
        drawn = (self.group or inputs) * (2 if self.symmetric else 1)
        largest = NormalDist().inv_cdf((drawn - 0.375) / (drawn + 0.25))  # Blom's approximation
        steps = int(2**self.bits) - (2 if self.symmetric else 1)
        return float(2 * largest / steps / math.sqrt(12))

    def rounded(self, weights: Any) -> Any:
        """A matrix (outputs × inputs) of torch as this scheme would give it back."""
        outputs, inputs = weights.shape
        group = self.group or inputs
        if inputs % group:
            raise KilocardError(f"{self.name}: rows of {inputs} weights cannot be cut into groups of {group}")
        groups = weights.reshape(outputs, -1, group)
        if self.symmetric:
            least, steps = -groups.abs().amax(-1, keepdim=True), 2**self.bits - 2
            distance = -2 * least / steps
            return ((groups / _nonzero(distance)).round() * distance).reshape(outputs, inputs)
        least, steps = groups.amin(-1, keepdim=True), 2**self.bits - 1
        distance = (groups.amax(-1, keepdim=True) - least) / steps
        levels = ((groups - least) / _nonzero(distance)).round()
        return (levels * distance + least).reshape(outputs, inputs)


def _nonzero(distance: Any) -> Any:
    return distance.masked_fill(distance == 0, 1)


SCHEMES = (
    Scheme("INT8, a scale a row", 8, symmetric=True),
    Scheme("INT4, groups of 64", 4, 64),
    Scheme("INT4, a scale a row", 4),
    Scheme("INT3, groups of 64", 3, 64),
    Scheme("INT4, groups of 32", 4, 32),
)
"""From harmless to ruinous, for rows that are multiples of 64; last, the embedded model's own grid (Q4_1)."""
