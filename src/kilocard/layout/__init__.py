"""Copy or cut: every way to lay a model over cards, what each gives, and which one to take."""

from kilocard.layout.candidate import Candidate, Judge
from kilocard.layout.choose import Choice, choose_layout
from kilocard.layout.needs import Needs
from kilocard.layout.speed import Load, Speed, speed_at

__all__ = ["Candidate", "Choice", "Judge", "Load", "Needs", "Speed", "choose_layout", "speed_at"]
