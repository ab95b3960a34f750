"""Sentences with numbers in them: written by the cell that computed the numbers."""

from __future__ import annotations

from collections.abc import Mapping

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


def holds(claims: Mapping[str, object]) -> None:
    """What a measurement must show on any box: the claims are said, and a false one stops the chapter."""
    failed = [claim for claim, is_true in claims.items() if not is_true]
    if failed:
        raise AssertionError(f"measured otherwise here: {'; '.join(failed)}")
    say(f"*So on any box:* {'; '.join(claims)}.")
