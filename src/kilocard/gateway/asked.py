"""What a gateway reads of a request's body; the rest goes to the engine as it came."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kilocard.gateway.refusal import RefusalError

BYTES_A_TOKEN = 4
"""Of English text, about; the guess of a prompt's length where its tokens are not told."""
NOTHING = msgspec.Raw()
MEDIA = re.compile(rb'"(?:image_url|input_audio|video_url|audio_url)"')


class Asked(msgspec.Struct):
    """The fields of completions, chats and embeddings that a gateway heeds."""

    model: str | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    prompt: msgspec.Raw = NOTHING
    messages: msgspec.Raw = NOTHING
    input: msgspec.Raw = NOTHING
    cache_salt: str | None = None

    @property
    def most_tokens(self) -> int | None:
        """What the client lets each answer have."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def content(self) -> bytes:
        """The prompt as JSON text: equal beginnings are equal prefixes."""
        return bytes(self.prompt) or bytes(self.messages) or bytes(self.input)


_decoder = msgspec.json.Decoder(Asked)


def read_asked(content: bytes) -> Asked:
    """The body of a POST, or a refusal that names the fault."""
    try:
        return _decoder.decode(content)
    except msgspec.ValidationError as error:
        raise RefusalError(400, f"the body is not as the API has it: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusalError(400, f"the body is no JSON object: {error!s:.200}") from error


def tokens_of(prompt: bytes) -> int:
    """Counted where a prompt is a list of token ids, else guessed from its length."""
    if prompt[:1] == b"[" and prompt[1:2].isdigit():
        return prompt.count(b",") + 1
    return max(1, len(prompt) // BYTES_A_TOKEN)


def has_media(content: bytes) -> bool:
    """Whether a chat has more than text in it."""
    return MEDIA.search(content) is not None


def with_field(content: bytes, name: str, value: Any) -> bytes:
    """The same JSON object with one more field, which it must not have yet, in front."""
    place = content.index(b"{") + 1
    comma = b"" if content[place:].lstrip()[:1] == b"}" else b","
    return b"%b%b:%b%b%b" % (
        content[:place],
        msgspec.json.encode(name),
        msgspec.json.encode(value),
        comma,
        content[place:],
    )
