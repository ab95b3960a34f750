"""The book's exercises, a module a part: `check("1.1", answer)` in a notebook."""

from kilocard.errors import KilocardError, near_match
from kilocard.notebook.exercises.batching import EXERCISES as BATCHING
from kilocard.notebook.exercises.bits import EXERCISES as BITS
from kilocard.notebook.exercises.exercise import Exercise, show
from kilocard.notebook.exercises.one_card import EXERCISES as ONE_CARD
from kilocard.notebook.exercises.predicting import EXERCISES as PREDICTING
from kilocard.notebook.exercises.prefix import EXERCISES as PREFIX

EXERCISES = {exercise.name: exercise for exercise in (*ONE_CARD, *BATCHING, *PREFIX, *BITS, *PREDICTING)}

__all__ = ["EXERCISES", "Exercise", "check", "named"]


def named(name: str) -> Exercise:
    """The exercise of this name."""
    if name not in EXERCISES:
        raise KilocardError(f"no exercise {name!r}: {near_match(name, EXERCISES)}")
    return EXERCISES[name]


def check(name: str, given: float | None = None) -> None:
    """Say whether the answer is right, and fold the worked solution beneath."""
    show(named(name), given)
