"""One request of a client as it is read: what of its head matters, and its body."""

from __future__ import annotations

from kilocard.gateway.refusal import RefusalError

MOST_HEADERS = 100
MOST_ID_BYTES = 128
WANTED = {
    b"authorization": "authorization",
    b"content-type": "content_type",
    b"expect": "expect",
    b"host": "host",
    b"traceparent": "traceparent",
    b"transfer-encoding": "transfer_encoding",
    b"x-api-key": "api_key",
    b"x-priority": "priority",
    b"x-request-id": "request_id",
}
PRINTABLE = bytes(range(0x21, 0x7F))


class Message:
    """Filled header by header, then piece by piece of the body."""

    __slots__ = (
        *("target", "method", "body", "body_bytes", "headers", "header_bytes", "keep_alive", "chunks"),
        *WANTED.values(),
    )

    def __init__(self) -> None:
        self.target = self.method = b""
        self.body: list[bytes] = []
        self.body_bytes = self.headers = self.header_bytes = 0
        self.keep_alive = self.chunks = True
        self.authorization = self.content_type = self.expect = self.host = self.traceparent = b""
        self.transfer_encoding = self.api_key = self.priority = self.request_id = b""

    @property
    def path(self) -> bytes:
        """The target without its query."""
        return self.target.partition(b"?")[0]

    @property
    def content(self) -> bytes:
        """The whole body."""
        return self.body[0] if len(self.body) == 1 else b"".join(self.body)

    def take_header(self, name: bytes, value: bytes) -> None:
        """Keep what matters; refuse what is asked twice, and more headers than anybody needs."""
        self.headers += 1
        self.header_bytes += len(name) + len(value)
        if self.headers > MOST_HEADERS:
            raise RefusalError(431, f"more than {MOST_HEADERS} headers: send fewer")
        field = WANTED.get(name.lower())
        if field is None:
            return
        if getattr(self, field):
            raise RefusalError(400, f"the header {name.decode('latin-1')} comes twice: send it once")
        setattr(self, field, value)

    def check_head(self) -> None:
        """What the parser lets through and nobody needs."""
        if self.transfer_encoding and self.transfer_encoding.lower() != b"chunked":
            raise RefusalError(501, "a transfer-encoding other than chunked is not spoken here: leave it out")
        if self.target[:1] != b"/":
            raise RefusalError(400, "the request's target is no path: ask /v1/... of this host")

    def id_or(self, made: bytes) -> bytes:
        """The client's own request id where it is short and printable, else the one that was made."""
        given = self.request_id
        return given if given and len(given) <= MOST_ID_BYTES and not given.strip(PRINTABLE) else made
