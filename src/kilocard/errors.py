"""The one error a user is meant to read."""

from collections.abc import Iterable
from difflib import get_close_matches


class KilocardError(Exception):
    """Bad input or a failed run: one line that names the value, the limit and the way out."""


def near_match(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the nearest known one, or else the whole list."""
    known = sorted(known)
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
