"""Programs of a cluster that no state knows: what runs is found by its name, and taken up again."""

from __future__ import annotations

from collections.abc import Container, Iterator

from kilocard.launch.keep import kept_under
from kilocard.lifecycle import Phase, Slot
from kilocard.supervisor.home import Home
from kilocard.supervisor.roster import pool_of
from kilocard.supervisor.state import Held


def lost(home: Home, known: Container[str], now_s: float) -> Iterator[Held]:
    """Each, in its slot: whoever has ever run has left a log."""
    for log in sorted(home.logs.glob("*.log")):
        name = log.stem
        found = None if name in known else kept_under(home.key_of(name))
        if found is not None:
            kept, settings, port = found
            slot = Slot(name, pool_of(name), settings, settings, Phase.SERVING, started_s=now_s)
            yield Held(slot.now_in(Phase.SERVING, now_s), port, kept)
