"""Whose request an attempt is: what it is asked for, and told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kilocard.gateway.front import Front
from kilocard.gateway.member import Member
from kilocard.routing.health import Ending
from kilocard.routing.replicas import Arrival

if TYPE_CHECKING:
    from kilocard.gateway.attempt import Attempt


class Caller(Protocol):
    """Whose request it is."""

    arrival: Arrival
    is_completion: bool
    answers: int
    """How many are asked for at once: their tokens come side by side."""
    front: Front

    def request_for(self, member: Member) -> bytes:
        """The whole request, as this engine gets it."""

    def opened(self, content: bytes) -> None:
        """The first events of a stream: the client's answer begins with them."""

    def answered(self, attempt: Attempt) -> None:
        """The answer is whole: of a stream all was relayed, anything else lies in `content`."""

    def failed(self, attempt: Attempt, reason: str, status: int, ending: Ending) -> None:
        """There is no answer, or no more of it."""
