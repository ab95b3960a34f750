"""What the gateways are told, and what they tell: which engines serve, and what each has in flight."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kilocard.errors import KilocardError
from kilocard.lifecycle import Phase
from kilocard.specs.cluster import ClusterSpec
from kilocard.specs.text_file import write_whole
from kilocard.supervisor.effective import effective
from kilocard.supervisor.gateways import GatewaySeat, in_flight, seats_of
from kilocard.supervisor.home import Home
from kilocard.supervisor.state import State
from kilocard.supervisor.watch import Watch

ROWS_EVERY_S = 0.2
UNUSED = ("starting", "down", "draining")
"""What a gateway says of a replica that it sends nothing to."""


class Front:
    """A gateway that has not taken up the last file, or not answered since, is not believed: as far as one
    knows, each engine still has something of it in flight."""

    def __init__(self, home: Home, watch: Watch, key: str = "") -> None:
        self._home, self._watch, self._key = home, watch, key
        self._rows: dict[int, list[dict[str, Any]]] = {}
        self._written = ""
        self._seen: tuple[Any, ...] = ()
        self._fault = ""
        self._stale: set[int] = set()
        self._told: dict[int, str] = {}

    @property
    def is_told(self) -> bool:
        """Whether every gateway has taken up the last file."""
        return not self._stale

    @property
    def is_behind(self) -> bool:
        """Whether the last file could not be written: gateways know what was, and go on by it."""
        return bool(self._fault)

    def write(self, spec: ClusterSpec, state: State) -> str:
        """The file, where it has changed; the fault, told once, where it cannot be written. Until it is, no
        gateway is believed."""
        slots = [(held.slot, held.port) for held in state.held.values()]
        seen = (spec, slots, dict(state.changes))
        if seen == self._seen:
            return ""
        text = effective(spec, state, self._home)
        if text != self._written:
            self._stale = {seat.number for seat in seats_of(spec)}
            try:
                write_whole(self._home.cluster, text)
            except KilocardError as error:
                fault, self._fault = "" if str(error) == self._fault else str(error), str(error)
                return fault
        self._written, self._seen, self._fault = text, seen, ""
        return ""

    def began(self, number: int) -> None:
        """A gateway was started anew."""
        self._stale.add(number)
        self._forget(number)

    def tell(self, spec: ClusterSpec, state: State) -> dict[str, str]:
        """Have each gateway that serves take up the file; by gateway, what it has against it, told once."""
        faults: dict[str, str] = {}
        if self.is_behind:
            return faults
        for seat in seats_of(spec, self._key):
            if seat.number in self._stale and _serves(state, seat):
                fault = seat.reload()
                if not fault:
                    self._told.pop(seat.number, None)
                    self._stale.discard(seat.number)
                    self._forget(seat.number)
                elif self._told.get(seat.number) != fault:
                    self._told[seat.number] = faults[f"gateway-{seat.number}"] = fault
        return faults

    def look(self, spec: ClusterSpec, now_s: float) -> None:
        """Ask, and take what was answered."""
        for seat in seats_of(spec, self._key):
            name = f"rows {seat.number}"
            self._watch.ask(name, now_s, ROWS_EVERY_S, seat.rows)
            if (rows := self._watch.answer(name)) is not None:
                self._rows[seat.number] = rows

    def in_flight(self, spec: ClusterSpec, state: State) -> Counter[str]:
        """By replica, over all gateways that live."""
        counted: Counter[str] = Counter()
        for seat in seats_of(spec):
            gateway = state.held.get(f"gateway-{seat.number}")
            if gateway is None or gateway.kept is None or not gateway.kept.is_alive:
                continue
            rows = self._rows.get(seat.number)
            if seat.number in self._stale or rows is None:
                counted.update(state.held)
            else:
                counted += in_flight(rows)
        return counted

    def sends_to(self, spec: ClusterSpec, name: str) -> bool:
        """Whether every gateway has taken up a replica, and found it to answer."""
        return all(
            any(row["id"] == name and row["state"] not in UNUSED for row in self._rows.get(seat.number, ()))
            for seat in seats_of(spec)
        )

    @property
    def seen(self) -> dict[str, dict[str, Any]]:
        """Each replica as the gateways see it, their counts together."""
        told: dict[str, dict[str, Any]] = {}
        for rows in self._rows.values():
            for row in rows:
                known = told.setdefault(str(row["id"]), {**row, "in_flight": 0, "served": 0})
                known["in_flight"] += row["in_flight"]
                known["served"] += row["served"]
        return told

    def _forget(self, number: int) -> None:
        self._rows.pop(number, None)
        self._watch.forget(f"rows {number}")


def _serves(state: State, seat: GatewaySeat) -> bool:
    held = state.held.get(f"gateway-{seat.number}")
    return held is not None and held.slot.phase in (Phase.SERVING, Phase.DRAINING)
