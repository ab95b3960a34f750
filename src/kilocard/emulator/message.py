"""One HTTP request, as it comes in."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote

import httptools

from kilocard.emulator.errors import ApiError


@dataclass(slots=True)
class Message:
    """What has come of it."""

    url: bytes = b""
    method: str = ""
    content_type: str = ""
    request_id: str = ""
    body: list[bytes] = field(default_factory=list)
    header_bytes: int = 0
    body_bytes: int = 0
    keep_alive: bool = True
    read_at: float = 0.0
    fault: ApiError | None = None

    @property
    def path(self) -> str:
        """Without the query; of a whole URL, as a proxy is asked, the path in it."""
        try:
            path = httptools.parse_url(self.url).path or b"/"
        except httptools.HttpParserInvalidURLError:
            path = self.url.partition(b"?")[0]
        return unquote(path.decode("latin-1"))
