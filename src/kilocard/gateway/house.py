"""The gateway itself: what each path answers, and what is kept of a call that has ended."""

from __future__ import annotations

from time import perf_counter

import msgspec

from kilocard.gateway.attempt import Attempt
from kilocard.gateway.books import Books
from kilocard.gateway.call import Call, Outcome
from kilocard.gateway.doorman import Doorman
from kilocard.gateway.front import Front
from kilocard.gateway.guests import Guests
from kilocard.gateway.intake import POSTS, Intake
from kilocard.gateway.message import Message
from kilocard.gateway.placing import Placing
from kilocard.gateway.refusal import RefusalError
from kilocard.gateway.warden import Warden
from kilocard.routing.health import ENGINES_OWN, Ending
from kilocard.specs.cluster import GatewaySpec


class Gateway:
    """One process's share of a cluster's gateway: fronts before it, stations behind it."""

    def __init__(
        self,
        spec: GatewaySpec,
        placing: Placing,
        doorman: Doorman,
        warden: Warden,
        books: Books,
    ) -> None:
        self.placing, self.doorman, self.warden, self.books = placing, doorman, warden, books
        self.intake = Intake(spec, doorman, placing)
        books.readers += [self.intake.learn, doorman.settle, warden.weigh_in]
        self.guests = Guests(spec.limits.connections)
        self.calls: set[Call] = set()
        self.is_draining = False
        self.held_bytes = 0
        self.models: dict[str, bytes] = {}
        self.version = b"{}"
        self.adopt(spec)

    def adopt(self, spec: GatewaySpec) -> None:
        """Use these settings from now on."""
        self.spec = self.intake.spec = spec
        limits = spec.limits
        self.most_header_bytes, self.most_body_bytes = limits.header_bytes, limits.body_bytes
        self.most_held_bytes = limits.held_bytes
        self.guests.most = limits.connections

    def answer(self, front: Front, message: Message) -> Call | None:
        """Answer at once, or begin a call."""
        path, method = message.path, message.method
        if path in POSTS:
            if method != b"POST":
                raise RefusalError(405, f"{path.decode()} takes POST")
            return self._begin(front, message, path)
        shown = f"nothing is at {path.decode('latin-1')!s:.100}"
        if method not in {b"GET", b"HEAD"}:
            raise RefusalError(404, f"{shown}: POST to /v1/chat/completions")
        if path == b"/v1/models":
            self.doorman.enter(message)
            front.respond(200, self._models())
        elif path == b"/health":
            front.respond(200, b"{}")
        elif path == b"/ready":
            front.respond(*self.readiness())
        elif path == b"/version":
            self.doorman.enter(message)
            front.respond(200, self.version)
        else:
            raise RefusalError(404, f"{shown}: see /v1/models")
        return None

    def readiness(self) -> tuple[int, bytes]:
        """Whether new clients should come here: not while it ends, and not without a replica."""
        if self.is_draining:
            return 503, b'{"ready": false, "reason": "draining"}'
        if not any(station.serves for station in self.placing.stations):
            return 503, b'{"ready": false, "reason": "no replica is up"}'
        return 200, b'{"ready": true}'

    def note_refusal(self, front: Front, refusal: RefusalError, message: Message) -> None:
        """What never became a call."""
        self.books.refused(front.peer, refusal, message)

    def engine_ended(self, attempt: Attempt, ending: Ending) -> None:
        """An attempt has ended so; what it says of the engine is the warden's to judge."""
        if ending in ENGINES_OWN:
            attempt.member.failures += 1
        self.warden.request_ended(attempt.member, ending, attempt.sent_s, perf_counter())

    def again(self, call: Call) -> bool:
        """Another replica, where tries and budget are left."""
        if not self.warden.budget.may_retry(perf_counter(), call.retries, call.has_begun):
            return False
        if not self.placing.again(call):
            return False
        call.retries += 1
        return True

    def over(self, call: Call) -> None:
        """It goes into the books; whoever waits may be next."""
        self.calls.discard(call)
        self.placing.unplace(call)
        self.books.note(call)
        if call.pool is not None:
            self.placing.finished(call.pool, call.ended_s)

    def _begin(self, front: Front, message: Message, path: bytes) -> Call:
        """A request for an engine: read, charged, placed."""
        call = self.intake.call_of(self, front, message, path)
        self.calls.add(call)
        try:
            tokens = call.arrival.prompt_tokens + call.arrival.expected_tokens
            self.doorman.charge(call.tenant, tokens, call.arrived_s)
            call.charged = tokens
            self.warden.budget.asked(call.arrived_s)
            self.placing.place(call)
        except RefusalError as refusal:
            self.books.telemetry.refusals[call.model, refusal.code or str(refusal.status)] += 1
            call.status, call.detail = refusal.status, refusal.message
            call.leave(Outcome.REFUSED)
            refusal.is_noted, refusal.request_id = True, call.request_id
            raise
        except Exception as error:
            call.status, call.detail = 500, repr(error)
            call.leave(Outcome.ERROR)
            raise
        return call

    def _models(self) -> bytes:
        """Those that are served, as their engines describe them."""
        rows = [msgspec.Raw(content) for content in self.models.values()]
        return msgspec.json.encode({"object": "list", "data": rows})
