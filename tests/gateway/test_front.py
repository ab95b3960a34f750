"""A client that reads nothing may ask nothing more, or what it is answered would pile up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kilocard.gateway.front import Front


class Transport:
    """Notes whether it reads."""

    reads = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str) -> None:
        return None


def test_who_does_not_read_is_not_read_until_he_does() -> None:
    house: Any = SimpleNamespace(guests=SimpleNamespace(admit=lambda guest: True, leave=lambda guest: None))
    front, transport = Front(house), Transport()
    front.connection_made(transport)  # type: ignore[arg-type]
    front.pause_writing()
    assert not transport.reads
    front.resume_writing()
    assert transport.reads
