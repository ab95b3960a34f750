"""One request of a client, from the moment it is whole until its answer is."""

from __future__ import annotations

from enum import StrEnum
from time import perf_counter
from typing import Protocol

from kilocard.gateway.attempt import Attempt
from kilocard.gateway.front import Front
from kilocard.gateway.member import Member
from kilocard.gateway.pool import Ints, Pool
from kilocard.gateway.refusal import RefusalError
from kilocard.routing.health import Ending, ending_of
from kilocard.routing.replicas import Arrival

FULL = frozenset({429, 503})
"""An engine that says it is full: no fault of its, but another may have room."""


class Outcome(StrEnum):
    """How a call ended, as the request table has it."""

    OK = "ok"
    REFUSED = "refused"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class Desk(Protocol):
    """What a call needs of the gateway."""

    def engine_ended(self, attempt: Attempt, ending: Ending) -> None:
        """An attempt has ended so."""

    def again(self, call: Call) -> bool:
        """Place it anew, where that is allowed."""

    def over(self, call: Call) -> None:
        """It has ended."""


class Limits(Protocol):
    """How long a call may take, in seconds."""

    @property
    def first_byte_s(self) -> float:
        """To the first byte of a stream."""

    @property
    def between_chunks_s(self) -> float:
        """To each next one."""


class Call:
    """Waits for a replica, then makes one attempt after another until one has begun to answer."""

    __slots__ = (
        *("front", "arrival", "keys", "ends", "path", "content", "request_id", "sequence", "tenant"),
        *("rank", "model", "outcome", "detail", "status", "pool", "attempt", "tried", "retries", "arrived_s"),
        *("sent_s", "ended_s", "most_s", "guess_row", "ticket", "is_over", "has_begun", "held_since"),
        *("is_streamed", "is_completion", "is_canary", "most_tokens", "charged", "tokens", "first_s"),
        "answers",
        *("tpot_s", "has_streamed"),
        *("traceparent", "_desk"),
    )

    def __init__(self, desk: Desk, front: Front, arrival: Arrival, keys: Ints, ends: Ints) -> None:
        self._desk, self.front = desk, front
        self.arrival, self.keys, self.ends = arrival, keys, ends
        self.path = self.content = self.request_id = self.traceparent = b""
        self.tenant = self.model = self.detail = ""
        self.sequence = self.rank = self.status = self.retries = self.guess_row = 0
        self.outcome: Outcome | None = None
        self.pool: Pool | None = None
        self.attempt: Attempt | None = None
        self.tried: list[Member] = []
        self.ticket: object = None
        self.arrived_s = perf_counter()
        self.sent_s = self.ended_s = self.held_since = 0.0
        self.most_s = float("inf")
        self.is_over = self.has_begun = False
        self.answers = 1
        self.is_streamed, self.is_completion = False, True
        self.is_canary: bool | None = None
        self.most_tokens = self.charged = self.tokens = 0
        self.first_s = self.tpot_s = 0.0
        self.has_streamed = False

    def go(self, pool: Pool, member: Member) -> None:
        """A replica has been chosen."""
        self.pool = pool
        self.tried.append(member)
        self.attempt = Attempt(self, pool, member)
        self.sent_s = self.sent_s or self.attempt.sent_s
        if len(self.keys):
            pool.remember(member, self.keys, self.ends)
        self.attempt.start()

    def request_for(self, member: Member) -> bytes:
        """The request as an engine gets it: our own head, and the body as it came."""
        return b"%bx-request-id: %b\r\n%bcontent-length: %d\r\n\r\n%b" % (
            member.opening(self.path),
            self.request_id,
            self.traceparent,
            len(self.content),
            self.content,
        )

    def opened(self, content: bytes) -> None:
        """From here on, the client has an answer that can only be gone on with."""
        self.has_begun = True
        attempt = self.attempt
        assert attempt is not None
        self.status = 200
        self.front.begin_stream(content, self._tags(attempt.member))

    def answered(self, attempt: Attempt) -> None:
        """The engine has said all."""
        if attempt.is_stream:
            attempt.close()
            self._desk.engine_ended(attempt, Ending.OK)
            self.leave(Outcome.OK)
            self.front.end_stream(attempt.take_last())
        elif attempt.status >= 500 or attempt.status in FULL:
            ending = ending_of(attempt.status, bool(attempt.retry_after))
            self.failed(attempt, f"the engine answered {attempt.status}", attempt.status, ending)
        else:
            attempt.close()
            self._desk.engine_ended(attempt, ending_of(attempt.status))
            self.status = attempt.status
            self.leave(Outcome.OK if attempt.status < 400 else Outcome.ERROR)
            self.front.respond(attempt.status, attempt.content, self._tags(attempt.member), attempt.kind)

    def failed(self, attempt: Attempt, reason: str, status: int, ending: Ending) -> None:
        """Try another replica while the client has seen nothing; else say so."""
        attempt.close()
        self.attempt, self.detail = None, reason
        self._desk.engine_ended(attempt, ending)
        if not self.has_begun and (status >= 500 or status in FULL) and self._desk.again(self):
            return
        self.attempt = attempt
        timed_out = status == 504
        refused = status in FULL and not self.has_begun
        self.leave(Outcome.TIMEOUT if timed_out else Outcome.REFUSED if refused else Outcome.ERROR)
        error = RefusalError(
            status if status < 500 or status in {503, 504} else 502,
            reason,
            retry_after_s=1 if refused else None,
        )
        if self.has_begun:
            self.front.end_stream(error.event)
        else:
            self.status = error.status
            self.front.respond(error.status, error.content, error.headers + self._tags(attempt.member))

    def refuse(self, refusal: RefusalError, outcome: Outcome = Outcome.REFUSED) -> None:
        """It has waited in vain."""
        self.status, self.detail = refusal.status, refusal.message
        self.leave(outcome)
        self.front.respond(refusal.status, refusal.content, refusal.headers + self._own_tags())

    def hang_up(self) -> None:
        """The client is gone: so is all that was done for it."""
        attempt = self.attempt
        if self.is_over:
            return
        if attempt is not None and attempt.has_said_all:
            self.answered(attempt)
            return
        self.detail = "the client hung up"
        if attempt is not None:
            attempt.close()
        self.leave(Outcome.CANCELLED)

    def give_up(self) -> None:
        """The gateway ends, and this did not."""
        gone = RefusalError(503, "the gateway is ending: ask again", "shutting_down", retry_after_s=1)
        attempt = self.attempt
        if attempt is None:
            self.refuse(gone)
            return
        attempt.close()
        self.detail = gone.message
        self.leave(Outcome.ERROR)
        if self.has_begun:
            self.front.end_stream(gone.event)
        else:
            self.front.respond(gone.status, gone.content, gone.headers + self._own_tags())

    def hold(self, held: bool) -> None:
        """The client is slower than the engine, or no longer."""
        self.held_since = perf_counter() if held else 0.0
        if self.attempt is not None:
            self.attempt.hold(held)

    def tick(self, now: float, limits: Limits, stall_s: float) -> None:
        """Tell how it gets on; end what takes too long."""
        attempt = self.attempt
        if attempt is None:
            return
        attempt.note_progress(now)
        if last := attempt.take_last():
            self.front.piece(last)
        if self.held_since:
            if now - self.held_since > stall_s:
                self.front.abort()
        elif now - attempt.sent_s > self.most_s:
            self.failed(attempt, f"no end within {self.most_s:.0f} s", 504, Ending.HANG)
        elif attempt.events == 0:
            if (attempt.is_stream or self.is_streamed) and now - attempt.sent_s > limits.first_byte_s:
                self.failed(attempt, f"no first token within {limits.first_byte_s:g} s", 504, Ending.HANG)
        elif now - attempt.last_s > limits.between_chunks_s:
            if attempt.has_said_all:
                self.answered(attempt)
                return
            self.failed(attempt, f"silent for {limits.between_chunks_s:g} s", 504, Ending.HANG)

    def leave(self, outcome: Outcome) -> None:
        """It is over."""
        self.is_over, self.outcome = True, outcome
        self.ended_s = perf_counter()
        attempt, self.attempt, self.content = self.attempt, None, b""
        if attempt is not None:
            self.tokens, self.first_s = attempt.tokens, attempt.first_s
            self.has_streamed = outcome is Outcome.OK and attempt.is_stream and self.first_s > 0
            if self.has_streamed and self.tokens > 1:
                self.tpot_s = (attempt.last_s - self.first_s) / (self.tokens - 1)
        self._desk.over(self)

    def _tags(self, member: Member) -> bytes:
        return b"x-request-id: %b\r\nx-sequence: %d\r\n%b" % (self.request_id, self.sequence, member.tags)

    def _own_tags(self) -> bytes:
        return b"x-request-id: %b\r\nx-sequence: %d\r\n" % (self.request_id, self.sequence)
