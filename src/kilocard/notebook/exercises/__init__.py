"""The book's exercises, a module a part."""

from kilocard.notebook.exercises import one_card
from kilocard.notebook.exercises.exercise import Exercise, check, named

__all__ = ["Exercise", "check", "named", "one_card"]
