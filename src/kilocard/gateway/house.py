"""The gateway itself: what each path answers, who may ask, and what is kept of a request that has ended."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from heapq import nsmallest
from secrets import token_hex
from time import perf_counter
from typing import Protocol

import msgspec

from kilocard.gateway.asked import Asked, read_asked, with_field
from kilocard.gateway.attempt import Attempt
from kilocard.gateway.call import Call, Outcome
from kilocard.gateway.front import Front
from kilocard.gateway.log import AccessLog, Entry
from kilocard.gateway.member import Member
from kilocard.gateway.message import PRINTABLE, Message
from kilocard.gateway.placing import Placing
from kilocard.gateway.refusal import RefusalError
from kilocard.gateway.telemetry import Telemetry
from kilocard.routing import lengths, prefixes
from kilocard.routing.budget import RetryBudget
from kilocard.routing.health import ENGINES_OWN, Ending
from kilocard.routing.replicas import Arrival
from kilocard.specs.cluster import CLASSES, GatewaySpec

CHAT = b"/v1/chat/completions"
COMPLETIONS = frozenset({b"/v1/completions", CHAT})
SILENT_TOKENS = 16
"""What an engine gives to a completion that does not say how much; a chat gets all there is room for."""
POSTS = COMPLETIONS | {b"/v1/embeddings"}
RANKS = {name.encode(): rank for rank, name in enumerate(CLASSES)}
MEDIA = re.compile(rb'"(?:image_url|input_audio|video_url|audio_url)"')
MOST_TRACE_BYTES = 256
IDLE_FOUND = 64
NO_KEYS = prefixes.keys_of(b"")


class Guard(Protocol):
    """Who may ask, and how much."""

    def enter(self, message: Message) -> str:
        """The tenant whose key this is; RefusalError where it is nobody's."""

    def ceiling(self, tenant: str) -> int:
        """The best rank that the tenant may ask for."""

    def charge(self, tenant: str, tokens: int, now_s: float) -> None:
        """Of the tenant's limits; RefusalError where they are used up."""

    def settle(self, tenant: str, charged: int, used: int, now_s: float) -> None:
        """What it came to."""


class Warden(Protocol):
    """Who watches the engines."""

    budget: RetryBudget

    def request_ended(self, member: Member, ending: Ending, sent_s: float, now_s: float) -> None:
        """A request at an engine has ended."""


class Gateway:
    """One process's share of a cluster's gateway: fronts before it, stations behind it."""

    def __init__(
        self,
        spec: GatewaySpec,
        placing: Placing,
        guard: Guard,
        warden: Warden,
        log: AccessLog,
        telemetry: Telemetry,
    ) -> None:
        self.placing, self.guard, self.warden, self.log = placing, guard, warden, log
        self.telemetry = telemetry
        self.fronts: set[Front] = set()
        self._idle: list[Front] = []
        self.calls: set[Call] = set()
        self.is_draining = False
        self.models: dict[str, bytes] = {}
        self.contexts: dict[str, int] = {}
        self.version = b"{}"
        self._seen = lengths.new_seen()
        self._sequence = 0
        self._prefix = token_hex(6).encode()
        self.adopt(spec)

    def adopt(self, spec: GatewaySpec) -> None:
        """Use these settings from now on."""
        self.spec = spec
        self.most_header_bytes, self.most_body_bytes = spec.limits.header_bytes, spec.limits.body_bytes

    def admit(self, front: Front) -> bool:
        """Whether there is room for one more connection; an idle one makes room for it."""
        if len(self.fronts) <= self.spec.limits.connections:
            return True
        idle = self._idlest(front)
        if idle is None:
            return False
        idle.abort()
        return True

    def _idlest(self, but: Front) -> Front | None:
        """Of those without a request, the one that has been so for the longest; some are found at once, so
        that not each newcomer costs a look at all."""
        for fresh in (False, True):
            if fresh:
                idle = (it for it in self.fronts if it.is_idle and it is not but)
                self._idle = nsmallest(IDLE_FOUND, idle, key=lambda it: it.waits_since)
                self._idle.reverse()
            while self._idle:
                front = self._idle.pop()
                if front.is_idle and front in self.fronts:
                    return front
        return None

    def answer(self, front: Front, message: Message) -> Call | None:
        """Answer at once, or begin a call."""
        path, method = message.path, message.method
        if path in POSTS:
            if method != b"POST":
                raise RefusalError(405, f"{path.decode()} takes POST")
            return self._begin(front, message, path)
        if method not in {b"GET", b"HEAD"}:
            raise RefusalError(
                404, f"nothing is at {path.decode('latin-1')!s:.100}: POST to /v1/chat/completions"
            )
        if path == b"/v1/models":
            self.guard.enter(message)
            front.respond(200, self._models())
        elif path == b"/health":
            front.respond(200, b"{}")
        elif path == b"/ready":
            front.respond(*self.readiness())
        elif path == b"/version":
            self.guard.enter(message)
            front.respond(200, self.version)
        else:
            raise RefusalError(404, f"nothing is at {path.decode('latin-1')!s:.100}: see /v1/models")
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
        self.telemetry.refusals["", str(refusal.status)] += 1
        about = {"at": _now(), "client": front.peer, "status": refusal.status, "outcome": "refused"}
        told = {"request_id": message.id_or(b"").decode("latin-1"), "error": refusal.message}
        self.log.note({**about, **told})

    def engine_ended(self, attempt: Attempt, ending: Ending) -> None:
        """An attempt has ended so; what it says of the engine is the warden's to judge."""
        if ending in ENGINES_OWN:
            attempt.member.failures += 1
        self.warden.request_ended(attempt.member, ending, attempt.sent_s, perf_counter())

    def again(self, call: Call) -> bool:
        """Another replica, where tries and budget are left."""
        now = perf_counter()
        if not self.warden.budget.may_retry(now, call.retries, call.has_begun):
            return False
        if not self.placing.again(call):
            return False
        call.retries += 1
        return True

    def over(self, call: Call) -> None:
        """Count it, learn from it, write it down; whoever waits may be next."""
        self.calls.discard(call)
        self.placing.unplace(call)
        attempt, member = call.attempt, call.member
        tokens = 0
        if attempt is not None:
            tokens = attempt.tokens
        if call.outcome is Outcome.OK and member is not None and attempt is not None:
            member.served += 1
            lengths.learn(self._seen, call.guess_row, tokens)
            if attempt.first_s and attempt.is_stream:
                self.telemetry.note_stream(call, attempt.first_s, attempt.last_s, tokens)
        self.telemetry.note(call, tokens)
        used = call.arrival.prompt_tokens + tokens if call.sent_s else 0
        self.guard.settle(call.tenant, call.charged, used, call.ended_s)
        self._write(call, call.status, call.outcome, call.detail, tokens)
        if call.pool is not None:
            self.placing.finished(call.pool, call.ended_s)

    def _begin(self, front: Front, message: Message, path: bytes) -> Call:
        """A request for an engine: read, allowed, placed."""
        tenant = self.guard.enter(message)
        content = message.content
        asked = read_asked(content)
        model = self._model(asked)
        is_completion = path in COMPLETIONS
        most = self._most_tokens(asked, model, path) if is_completion else 0
        if path == CHAT and asked.most_tokens is None and model in self.contexts:
            content = with_field(content, "max_tokens", most)
        rank = max(self.guard.ceiling(tenant), self._rank(message))
        call = self._call(front, asked, tenant, most, rank)
        call.model, call.path, call.content, call.is_completion = model, path, content, is_completion
        call.request_id = message.id_or(b"%b-%x" % (self._prefix, call.sequence))
        call.is_multimodal = path == CHAT and MEDIA.search(content) is not None
        if 0 < len(message.traceparent) <= MOST_TRACE_BYTES and not message.traceparent.strip(PRINTABLE):
            call.traceparent = b"traceparent: %b\r\n" % message.traceparent
        self.calls.add(call)
        try:
            tokens = call.arrival.prompt_tokens + call.arrival.expected_tokens
            self.guard.charge(tenant, tokens, call.arrived_s)
            call.charged = tokens
            self.warden.budget.asked(call.arrived_s)
            self.placing.place(call, self.placing.station_for(call))
        except RefusalError as refusal:
            self.telemetry.refusals[model, refusal.code or str(refusal.status)] += 1
            call.status, call.detail = refusal.status, refusal.message
            call.leave(Outcome.REFUSED)
            refusal.is_noted = True
            raise
        return call

    def _call(self, front: Front, asked: Asked, tenant: str, most: int, rank: int) -> Call:
        prompt = asked.content
        keys, ends = (
            prefixes.keys_of(prompt, (asked.cache_salt or "").encode()) if len(prompt) > 255 else NO_KEYS
        )
        row = lengths.row_of(self._seen, tenant, most)
        answers = max(1, min(asked.n or 1, 128))
        expected = answers * lengths.guess(self._seen, row, most)
        prefix = int(keys[-1]) if len(keys) else -1
        arrival = Arrival(asked.prompt_tokens, expected, prefix, rank)
        call = Call(self, front, asked, arrival, keys, ends)
        self._sequence += 1
        call.sequence, call.tenant, call.rank, call.guess_row = self._sequence, tenant, rank, row
        call.most_tokens = most
        call.most_s = self.spec.timeouts.longest_s(most)
        return call

    def _model(self, asked: Asked) -> str:
        """The model that is meant; one that is not served is told with those that are."""
        names = dict.fromkeys(station.pool.model for station in self.placing.stations)
        if asked.model in names:
            return asked.model
        if asked.model is None and len(names) == 1:
            return next(iter(names))
        raise RefusalError(
            404,
            f"the model {asked.model!s:.200} is not served here: use {', '.join(names)}",
            "model_not_found",
        )

    def _most_tokens(self, asked: Asked, model: str, path: bytes) -> int:
        """What the client asks for, if that is allowed; what the engine would give, where it does not say."""
        limit = self.spec.limits.max_tokens
        most = asked.most_tokens
        if most is None:
            return (
                SILENT_TOKENS if path == b"/v1/completions" else min(limit, self.contexts.get(model, limit))
            )
        if not 0 <= most <= limit:
            raise RefusalError(
                400, f"max_tokens {most} is not from 0 to {limit}, the most here: ask for less"
            )
        return most

    def _rank(self, message: Message) -> int:
        rank = RANKS.get(message.priority.lower(), None if message.priority else 0)
        if rank is None:
            raise RefusalError(
                400, f"x-priority {message.priority.decode('latin-1')!s:.40} is none of {', '.join(CLASSES)}"
            )
        return rank

    def _models(self) -> bytes:
        """Those that are served, as their engines describe them."""
        rows = [msgspec.Raw(content) for content in self.models.values()]
        return msgspec.json.encode({"object": "list", "data": rows})

    def _write(self, call: Call, status: int, outcome: Outcome | None, detail: str, tokens: int = 0) -> None:
        """A line of the access log; neither prompt nor answer is in it."""
        attempt, member = call.attempt, call.member
        ended_s = call.ended_s or perf_counter()
        self.log.note(
            Entry(
                at=_now(),
                request_id=call.request_id.decode("latin-1"),
                sequence=call.sequence,
                client=call.front.peer,
                tenant=call.tenant,
                model=call.model,
                priority=CLASSES[call.rank],
                pool=call.pool.name if call.pool else "",
                replica=member.id if member else "",
                node=member.node if member else "",
                version=member.version if member else "",
                status=status,
                outcome=str(outcome),
                error=detail or None,
                retries=call.retries,
                prompt_tokens=call.arrival.prompt_tokens,
                output_tokens=tokens,
                queue_s=round(call.sent_s - call.arrived_s, 6) if call.sent_s else None,
                ttft_s=round(attempt.first_s - call.arrived_s, 6) if attempt and attempt.first_s else None,
                took_s=round(ended_s - call.arrived_s, 6),
            )
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
