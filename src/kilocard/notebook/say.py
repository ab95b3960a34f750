"""Sentences with numbers in them: written by the cell that computed the numbers."""

from __future__ import annotations

from IPython.display import Markdown, display


def say(text: str) -> None:
    """Show a paragraph of Markdown whose numbers come from this cell."""
    display(Markdown(" ".join(text.split())))


def gap(text: str) -> None:
    """The paragraph that a chapter exists for: prediction beside measurement, and why they differ."""
    say(f"**The gap.** {text}")


def takeaway(text: str) -> None:
    """One number, its conditions, and where it breaks."""
    say(f"> **Takeaway.** {' '.join(text.split())}")
