"""A small house for operators, and the port that Prometheus reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kilocard.gateway.front import Front
from kilocard.gateway.message import Message
from kilocard.gateway.refusal import RefusalError
from kilocard.gateway.telemetry import Scene, metrics_page

if TYPE_CHECKING:
    from kilocard.gateway.server import Process

MOST_CONNECTIONS = 256
METRICS_KIND = b"text/plain; version=0.0.4; charset=utf-8"


class Door:
    """A small house for operators: bounded as the public one, and with few connections."""

    most_header_bytes = 16 * 2**10
    most_body_bytes = 64 * 2**10
    most_held_bytes = MOST_CONNECTIONS * 64 * 2**10

    def __init__(self, process: Process) -> None:
        self._process = process
        self.held_bytes = 0
        self.guests = process.door_guests

    @property
    def is_draining(self) -> bool:
        """A door stays open while the gateway drains."""
        return False

    def note_refusal(self, front: Front, refusal: RefusalError, message: Message) -> None:
        """As at the public port."""
        self._process.house.note_refusal(front, refusal, message)


class MetricsDoor(Door):
    """What Prometheus reads; takes no orders."""

    def answer(self, front: Front, message: Message) -> None:
        """/metrics, /health and /ready."""
        process = self._process
        if message.method not in {b"GET", b"HEAD"}:
            raise RefusalError(405, "this port takes GET alone")
        if message.path == b"/metrics":
            front.respond(200, metrics_page(scene_of(process)), kind=METRICS_KIND)
        elif message.path == b"/ready":
            front.respond(*process.house.readiness())
        elif message.path == b"/health":
            front.respond(200, b"{}")
        else:
            raise RefusalError(404, "nothing is there: ask /metrics")


def scene_of(process: Process) -> Scene:
    """What a scrape sees."""
    process.house.books.settle()
    stations = process.placing.stations
    members = [member for station in stations for member in station.pool.members]
    return Scene(
        telemetry=process.house.books.telemetry,
        pools=[(station.pool, station.line) for station in stations],
        states={member.id: process.warden.state_of(member) for member in members},
        connections=len(process.house.guests),
        is_draining=process.house.is_draining,
    )
