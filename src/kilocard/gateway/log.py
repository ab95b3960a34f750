"""The access log: one JSON line a request, written in batches; a full disk costs lines, never answers."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from kilocard.errors import KilocardError
from kilocard.gateway.call import Call
from kilocard.gateway.message import Message
from kilocard.gateway.refusal import RefusalError
from kilocard.specs.cluster import CLASSES

MOST_KEPT_BYTES = 4 * 2**20
FLUSH_BYTES = 64 * 2**10


class AccessLog:
    """Lines that could not be written are counted, and the count is written when there is room again."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._descriptor = self._open()
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self.lost = 0

    def note(self, row: msgspec.Struct | dict[str, Any]) -> None:
        """One line, soon."""
        if self._kept_bytes > MOST_KEPT_BYTES:
            self.lost += 1
            return
        line = msgspec.json.encode(row) + b"\n"
        self._kept.append(line)
        self._kept_bytes += len(line)
        if self._kept_bytes >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is kept, as far as it goes."""
        if not self._kept:
            return
        content = b"".join(self._kept)
        written = self._write(content)
        self._kept = [content[written:]] if written < len(content) else []
        self._kept_bytes = len(content) - written
        if self.lost and not self._kept:
            told = msgspec.json.encode({"lost_lines": self.lost}) + b"\n"
            rest = told[self._write(told) :]
            if rest != told:
                self.lost, self._kept, self._kept_bytes = 0, [rest] * bool(rest), len(rest)

    def _write(self, content: bytes) -> int:
        try:
            return os.write(self._descriptor, content)
        except OSError:  # full, gone, or nobody reads it
            return 0

    def reopen(self) -> None:
        """After somebody has moved the file away."""
        self.flush()
        if self._path is not None:
            try:
                fresh = self._open()
            except KilocardError:  # the old file is better than none
                self.lost += 1
                return
            os.close(self._descriptor)
            self._descriptor = fresh

    def close(self) -> None:
        """Write the rest."""
        self.flush()
        if self._path is not None:
            os.close(self._descriptor)

    def _open(self) -> int:
        if self._path is None:
            return _unwaiting_stderr()
        place = Path(self._path).expanduser()
        try:
            return os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            reason = error.strerror or str(error)
            raise KilocardError(
                f"cannot write the access log {place}: {reason}; name another gateway.access_log.path"
            ) from error


def _unwaiting_stderr() -> int:
    """A way to stderr of our own: where nobody reads the pipe, a write fails instead of standing still. What
    cannot be opened anew, as a socket, is used as it is."""
    number = sys.stderr.fileno()
    try:
        return os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return number


class Entry(msgspec.Struct):
    """One request, as the log has it; times in seconds."""

    at: str
    request_id: str
    sequence: int
    client: str
    tenant: str
    model: str
    priority: str
    pool: str
    replica: str
    node: str
    version: str
    status: int
    outcome: str
    error: str | None
    retries: int
    prompt_tokens: int
    output_tokens: int
    queue_s: float | None
    ttft_s: float | None
    took_s: float


def entry_of(call: Call, at: str) -> Entry:
    """Of a call that has ended; neither prompt nor answer is in it."""
    member = call.tried[-1] if call.tried else None
    arrived_s = call.arrived_s
    return Entry(
        at=at,
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
        status=call.status,
        outcome=str(call.outcome),
        error=call.detail or None,
        retries=call.retries,
        prompt_tokens=call.arrival.prompt_tokens,
        output_tokens=call.tokens,
        queue_s=round(call.sent_s - arrived_s, 6) if call.sent_s else None,
        ttft_s=round(call.first_s - arrived_s, 6) if call.first_s else None,
        took_s=round(call.ended_s - arrived_s, 6),
    )


def refused_entry(client: str, refusal: RefusalError, message: Message) -> dict[str, Any]:
    """Of what never became a call."""
    return {
        "at": time_at(time.time()),
        "client": client,
        "status": refusal.status,
        "outcome": "refused",
        "request_id": message.id_or(b"").decode("latin-1"),
        "error": refusal.message,
    }


def time_at(unix_s: float) -> str:
    """To the millisecond, in UTC."""
    whole_s, rest = divmod(round(1000 * unix_s), 1000)
    return f"{_second(whole_s)}.{rest:03d}+00:00"


@lru_cache(maxsize=4)
def _second(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
