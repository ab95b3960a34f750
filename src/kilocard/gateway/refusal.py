"""What a gateway answers instead of an engine: errors in OpenAI's form."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from math import ceil

import msgspec

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class RefusalError(Exception):
    """A request that gets no answer of an engine: status, reason, and when to come again."""

    def __init__(
        self, status: int, message: str, code: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.retry_after_s = retry_after_s
        self.request_id = b""
        self.is_noted = False
        """Whether the access log has it."""

    @property
    def content(self) -> bytes:
        """The error as a body."""
        return msgspec.json.encode({"error": self._error})

    @property
    def event(self) -> bytes:
        """The error as an event, for a stream that has begun."""
        return b"data: " + self.content + b"\n\n"

    @property
    def headers(self) -> bytes:
        """Which request it was, and Retry-After in whole seconds, as HTTP wants it."""
        told = b"x-request-id: %b\r\n" % self.request_id if self.request_id else b""
        if self.retry_after_s is None:
            return told
        return b"%bretry-after: %d\r\n" % (told, max(1, ceil(self.retry_after_s)))

    @property
    def _error(self) -> dict[str, str | int | None]:
        kind = KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"message": self.message, "type": kind, "param": None, "code": self.code or self.status}


def head(status: int, length: int | None, kind: bytes = b"application/json", more: bytes = b"") -> bytes:
    """The head of an answer; without a length, its end is told by chunks or by the connection's."""
    if length is None:
        return b"%bcontent-type: %b\r\n%b\r\n" % (_opening(status), kind, more)
    return b"%bcontent-type: %b\r\ncontent-length: %d\r\n%b\r\n" % (_opening(status), kind, length, more)


@cache
def _opening(status: int) -> bytes:
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "-"
    return b"HTTP/1.1 %d %b\r\n" % (status, reason.encode())
