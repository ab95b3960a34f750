"""One replica as the gateway deals with it: its connections, its row in the table, who it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from kilocard.gateway.lines import Lines
from kilocard.specs.cluster.parts import joined


@dataclass(slots=True, eq=False)
class Member:
    """A replica of a pool. Its `row` is its place in the pool's table, and changes when another leaves."""

    id: str
    host: str
    port: int
    row: int
    lines: Lines
    weight: float = 1.0
    cap: int = 0
    whole_cap: int = 0
    """Of all gateways together; `cap` is this one's part."""
    is_owned: bool = True
    """Whether this gateway has a part of it."""
    node: str = ""
    version: str = ""
    tags: bytes = b""
    """Headers that tell the client who answered."""
    group: str = ""
    engine_key: str = field(default="", repr=False)
    is_draining: bool = False
    is_leaving: bool = False
    served: int = 0
    heard_s: float = 0.0
    """When the last byte came from it."""
    kv_seen_s: float = 0.0
    """When its engine told how full its KV cache is; 0: never, or so long ago that it says nothing."""
    failures: int = 0
    wants_restart: bool = False
    """It has been slow for long: a restart may help."""
    _openings: dict[bytes, bytes] = field(default_factory=dict)

    def is_called(self, node: str, version: str) -> None:
        """Where it runs, and which version of its model."""
        self.node, self.version = node, version
        told = (version.encode(), node.encode(), self.id.encode())
        self.tags = b"x-model-version: %b\r\nx-node: %b\r\nx-replica: %b\r\n" % told

    def opening(self, path: bytes, method: bytes = b"POST") -> bytes:
        """The part of a request's head that is the same each time."""
        known = self._openings.get(path)
        if known is None:
            key = f"authorization: Bearer {self.engine_key}\r\n" if self.engine_key else ""
            told = f"host: {joined(self.host, self.port)}\r\ncontent-type: application/json\r\n{key}"
            known = self._openings[path] = b"%b %b HTTP/1.1\r\n%b" % (method, path, told.encode())
        return known
