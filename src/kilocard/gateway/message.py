"""One request of a client as it is read: what of its head matters, and its body."""

from __future__ import annotations

from kilocard.gateway.refusal import RefusalError

MOST_HEADERS = 100
MOST_ID_BYTES = 128
WANTED = frozenset(
    {
        b"authorization",
        b"content-type",
        b"expect",
        b"host",
        b"traceparent",
        b"transfer-encoding",
        b"x-api-key",
        b"x-priority",
        b"x-request-id",
    }
)
PRINTABLE = bytes(range(0x21, 0x7F))


class Message:
    """Filled header by header, then piece by piece of the body."""

    __slots__ = (
        *("target", "method", "body", "body_bytes", "headers", "header_bytes", "keep_alive", "chunks"),
        "_given",
    )

    def __init__(self) -> None:
        self.target = self.method = b""
        self.body: bytes | bytearray = b""
        self._given: dict[bytes, bytes] = {}
        self.body_bytes = self.headers = self.header_bytes = 0
        self.keep_alive = self.chunks = True

    @property
    def path(self) -> bytes:
        """The target without its query."""
        return self.target.partition(b"?")[0]

    @property
    def content(self) -> bytes:
        """The whole body."""
        return bytes(self.body)

    def header(self, name: bytes) -> bytes:
        """Of the headers that matter, by its name in small letters; empty where it was not given."""
        return self._given.get(name, b"")

    def take_header(self, name: bytes, value: bytes) -> None:
        """Keep one that matters, by its name in small letters; refuse what is asked twice."""
        if name in self._given:
            raise RefusalError(400, f"the header {name.decode('latin-1')} comes twice: send it once")
        self._given[name] = value

    def take_body(self, piece: bytes) -> None:
        """One more piece: many small ones must not cost more than their bytes."""
        self.body_bytes += len(piece)
        if not self.body:
            self.body = piece
        elif isinstance(self.body, bytearray):
            self.body += piece
        else:
            self.body = bytearray(self.body) + piece

    def check_head(self, version: str) -> None:
        """What the parser lets through and nobody needs."""
        if version not in {"1.1", "1.0"}:
            raise RefusalError(505, f"HTTP/{version} is not spoken here: use HTTP/1.1")
        if version == "1.1" and b"host" not in self._given:
            raise RefusalError(400, "no host header: HTTP/1.1 has one in each request")
        coding = self._given.get(b"transfer-encoding")
        if coding is not None and version == "1.0":
            raise RefusalError(400, "HTTP/1.0 has no transfer-encoding: send a content-length")
        if coding is not None and coding.lower() != b"chunked":
            raise RefusalError(501, "a transfer-encoding other than chunked is not spoken here: leave it out")
        if self.target[:1] != b"/":
            raise RefusalError(400, "the request's target is no path: ask /v1/... of this host")
        expected = self._given.get(b"expect")
        if expected is not None and expected.lower() != b"100-continue":
            raise RefusalError(417, "nothing but 100-continue is expected here: leave the header out")

    @property
    def expects_a_word(self) -> bool:
        """Whether the client waits to be told that it may send its body."""
        return b"expect" in self._given

    def id_or(self, made: bytes) -> bytes:
        """The client's own request id where it is short and printable, else the one that was made."""
        given = self._given.get(b"x-request-id")
        return given if given and len(given) <= MOST_ID_BYTES and not given.strip(PRINTABLE) else made
