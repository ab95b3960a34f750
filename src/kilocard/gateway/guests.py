"""The connections at a door: bounded, and where there is no more room an idle one makes some."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from typing import Protocol

from kilocard.specs.cluster.limits import Limits

IDLE_FOUND = 64
CLOSING_S = 2.0


class Guest(Protocol):
    """A client's connection."""

    @property
    def reads(self) -> str:
        """What it waits for: `idle` for a request, `head`, `body`, or `closing` for the client to go."""

    @property
    def waits_since(self) -> float:
        """Since when."""

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""

    @property
    def is_idle(self) -> bool:
        """Whether it could be closed without a loss."""

    @property
    def is_sending(self) -> bool:
        """Whether the client has not yet taken all that was written."""

    def close(self) -> None:
        """Once what was written has left."""

    def too_slow(self) -> None:
        """Its request does not come to an end."""

    def abort(self) -> None:
        """Close it now."""


class Guests:
    """`most` of them at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._here: set[Guest] = set()
        self._idle: list[Guest] = []

    def __len__(self) -> int:
        return len(self._here)

    def __iter__(self) -> Iterator[Guest]:
        return iter(list(self._here))

    def __contains__(self, guest: Guest) -> bool:
        return guest in self._here

    def admit(self, guest: Guest) -> bool:
        """Whether there is room for it; it is here until it leaves, all the same."""
        self._here.add(guest)
        if len(self._here) <= self.most:
            return True
        idle = self._idlest(guest)
        if idle is None:
            return False
        idle.abort()
        return True

    def leave(self, guest: Guest) -> None:
        """It is gone."""
        self._here.discard(guest)

    def close(self) -> None:
        """Nobody stays."""
        for guest in self:
            guest.abort()

    def _idlest(self, but: Guest) -> Guest | None:
        """Of those without a request, the one that has been so for the longest; some are found at once, so
        that not each newcomer costs a look at all."""
        for fresh in (False, True):
            if fresh:
                idle = (it for it in self._here if it.is_idle and it is not but)
                self._idle = nsmallest(IDLE_FOUND, idle, key=lambda it: it.waits_since)
                self._idle.reverse()
            while self._idle:
                guest = self._idle.pop()
                if guest.is_idle and guest in self._here:
                    return guest
        return None


def look_at(guest: Guest, now: float, limits: Limits, ending: bool) -> None:
    """Each may take its time, but not any time."""
    since_s = now - guest.waits_since
    if guest.reads == "closing":
        most_s = limits.idle_s if guest.is_sending else CLOSING_S
        if since_s > most_s and not guest.is_answering:
            guest.abort()
    elif guest.reads == "idle":
        if not guest.is_answering and (since_s > limits.idle_s or ending):
            guest.close()
    elif since_s > (limits.header_s if guest.reads == "head" else limits.body_s):
        guest.too_slow()
