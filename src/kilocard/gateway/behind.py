"""What stands behind a front: a house that answers, and calls that take their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kilocard.gateway.guests import Guests
from kilocard.gateway.message import Message
from kilocard.gateway.reader import Bounds
from kilocard.gateway.refusal import RefusalError

if TYPE_CHECKING:
    from kilocard.gateway.front import Front


class Call(Protocol):
    """What a front tells the request that it is answering."""

    def hang_up(self) -> None:
        """The client is gone."""

    def hold(self, held: bool) -> None:
        """The client reads more slowly than the engine writes; or again as fast."""


class House(Bounds, Protocol):
    """What stands behind a front."""

    guests: Guests

    @property
    def is_draining(self) -> bool:
        """Whether connections end with the answer that is under way."""

    def answer(self, front: Front, message: Message) -> Call | None:
        """Answer at once, or begin a call; RefusalError is an answer."""

    def note_refusal(self, front: Front, refusal: RefusalError, message: Message) -> None:
        """Log what was refused before it was a request."""
