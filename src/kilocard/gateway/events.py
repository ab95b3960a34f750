"""Server-sent events as they pass: whole ones, errors among them, and the last word. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

END = b"\n\n"
DONE = b"data: [DONE]\n\n"
MOST_HELD = 2**20
"""Of an event without an end; past it, pieces go on as they come."""
_ERROR = re.compile(rb'(?:\A|\n)(?:event: ?error\r?\n)?data: ?(\{\s*"error"\s*:[^\n]*)')
_FULL = (b"reasoning", b"tool_calls", b"text")
_LAST_WORD = re.compile(rb'(?:\A|\n)data: ?\[DONE\]|"finish_reason" ?: ?"')
_ROLE = re.compile(rb'"role" ?: ?"')
_SAID = re.compile(rb'"(?:content|reasoning|reasoning_content|text)" ?: ?"(?!")|"tool_calls" ?:')


def split(content: bytes) -> tuple[bytes, bytes]:
    """What ends with a whole event, and the beginning of the next one."""
    place = max(content.rfind(b"\n\n") + 2, content.rfind(b"\r\n\r\n") + 4, content.rfind(b"\r\r") + 2)
    if place < 4 and len(content) > MOST_HELD:
        place = len(content)
    return (content[:place], content[place:]) if place >= 4 else (b"", content)


def count(content: bytes) -> int:
    """How many events end here: a blank line cannot stand inside their JSON."""
    return content.count(b"\n\n") or content.count(b"\r\n\r\n")


def error_in(content: bytes) -> tuple[int, dict[str, Any]] | None:
    """Where an error event begins, and what it says."""
    found = _ERROR.search(content)
    if found is None:
        return None
    try:
        told = msgspec.json.decode(found.group(1)).get("error")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    place = found.start() + (content[found.start() : found.start() + 1] == b"\n")
    return place, told if isinstance(told, dict) else {"message": str(told)}


def has_last_word(content: bytes) -> bool:
    """Whether a stream that ends here has ended well: a finish reason, or [DONE]."""
    return content.endswith(DONE) or _LAST_WORD.search(content) is not None


def only_opens(content: bytes) -> bool:
    """Whether these events say who will speak, and nothing yet."""
    if b'"role"' not in content:
        return False
    if b'"content":""' in content and content.count(b'"content"') == 1 and not any(map(content.count, _FULL)):
        return True
    return _ROLE.search(content) is not None and _SAID.search(content) is None


MOST_TOKENS = 10**9
"""An engine that tells of more is not believed."""
Tokens = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class Usage(msgspec.Struct):
    """What an engine says that it did."""

    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None


class _Told(msgspec.Struct):
    usage: Usage | None = None


_told = msgspec.json.Decoder(_Told)


def usage_in(content: bytes) -> Usage | None:
    """The usage that the last events, or a whole answer, tell."""
    place = content.rfind(b'"usage"')
    if place < 0:
        return None
    begin = content.rfind(b"data:", 0, place)
    text = content if begin < 0 else content[begin + 5 :].partition(b"\n")[0]
    try:
        return _told.decode(text).usage
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
