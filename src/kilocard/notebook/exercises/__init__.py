"""The book's exercises, a module a part: `check("1.1", answer)` in a notebook."""

from kilocard.errors import KilocardError, near_match
from kilocard.notebook.exercises.apart import EXERCISES as APART
from kilocard.notebook.exercises.batching import EXERCISES as BATCHING
from kilocard.notebook.exercises.bits import EXERCISES as BITS
from kilocard.notebook.exercises.box_topology import EXERCISES as BOX_TOPOLOGY
from kilocard.notebook.exercises.collectives import EXERCISES as COLLECTIVES
from kilocard.notebook.exercises.copies import EXERCISES as COPIES
from kilocard.notebook.exercises.copy_or_cut import EXERCISES as COPY_OR_CUT
from kilocard.notebook.exercises.cutting import EXERCISES as CUTTING
from kilocard.notebook.exercises.discount import EXERCISES as DISCOUNT
from kilocard.notebook.exercises.exercise import Exercise, show
from kilocard.notebook.exercises.from_outside import EXERCISES as FROM_OUTSIDE
from kilocard.notebook.exercises.holding_back import EXERCISES as HOLDING_BACK
from kilocard.notebook.exercises.multiplication import EXERCISES as MULTIPLICATION
from kilocard.notebook.exercises.one_card import EXERCISES as ONE_CARD
from kilocard.notebook.exercises.own_policy import EXERCISES as OWN_POLICY
from kilocard.notebook.exercises.own_policy import check_policy
from kilocard.notebook.exercises.predicting import EXERCISES as PREDICTING
from kilocard.notebook.exercises.prefix import EXERCISES as PREFIX
from kilocard.notebook.exercises.round_robin import EXERCISES as ROUND_ROBIN
from kilocard.notebook.exercises.service import EXERCISES as SERVICE
from kilocard.notebook.exercises.signals import EXERCISES as SIGNALS
from kilocard.notebook.exercises.slow_one import EXERCISES as SLOW_ONE
from kilocard.notebook.exercises.tiers import EXERCISES as TIERS

EXERCISES = {
    exercise.name: exercise
    for exercise in (
        *ONE_CARD,
        *BATCHING,
        *PREFIX,
        *BITS,
        *PREDICTING,
        *COPY_OR_CUT,
        *CUTTING,
        *COLLECTIVES,
        *BOX_TOPOLOGY,
        *APART,
        *COPIES,
        *SERVICE,
        *FROM_OUTSIDE,
        *TIERS,
        *OWN_POLICY,
        *ROUND_ROBIN,
        *SIGNALS,
        *HOLDING_BACK,
        *SLOW_ONE,
        *MULTIPLICATION,
        *DISCOUNT,
    )
}

__all__ = ["EXERCISES", "Exercise", "check", "check_policy", "named"]


def named(name: str) -> Exercise:
    """The exercise of this name."""
    if name not in EXERCISES:
        raise KilocardError(f"no exercise {name!r}: {near_match(name, EXERCISES)}")
    return EXERCISES[name]


def check(name: str, given: float | None = None) -> None:
    """Say whether the answer is right, and fold the worked solution beneath."""
    show(named(name), given)
