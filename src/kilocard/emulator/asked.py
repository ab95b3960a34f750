"""One request of the OpenAI API: read, checked as vLLM checks it, and turned into what an engine needs.

Of the many options those that bear on time and length are heeded; log-probabilities, tools and the like are
accepted and have no effect. Tokens of text are an estimate; lists of token ids are exact.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kilocard.emulator.errors import ApiError, bad_request, invalid, no_such_model
from kilocard.emulator.text import BYTES_A_TOKEN, answer_to, tokens_of, whole_blocks

CHAT_ANSWER_TOKENS = 256
"""Where a chat sets no `max_tokens`, the answer ends by itself here."""
COMPLETION_TOKENS = 16
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
INT64 = 2**63


Body = TypeVar("Body", bound="_Asked")


class _StreamOptions(BaseModel):
    include_usage: bool | None = None


class _Asked(BaseModel):
    """What both endpoints take; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    model: str | None = None
    max_tokens: int | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    stop: str | list[str] | None = None
    include_stop_str_in_output: bool = False
    n: int | None = 1
    seed: Annotated[int, Field(ge=-INT64, lt=INT64)] | None = None
    priority: Annotated[int, Field(ge=-INT64, lt=INT64)] = 0
    temperature: float | None = None
    top_p: float | None = None


class _Completion(_Asked):
    prompt: str | list[TokenId] | list[str] | list[list[TokenId]] | None = None


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    role: str
    content: str | list[dict[str, Any]] | None = None


class _Chat(_Asked):
    messages: list[_Message]
    max_completion_tokens: int | None = None


@dataclass(frozen=True)
class Asked:
    """A request as the engine sees it. `content` is the prompt, and its answer where text can follow it."""

    model: str
    chat: bool
    stream: bool
    usage: bool
    prompt_tokens: int
    output_tokens: int
    most_tokens: int
    """As asked for, or what there was room for."""
    text: bytes
    """The whole answer; each token is four bytes of it, the last perhaps fewer."""
    finish_reason: str
    stop_reason: str | None
    priority: int
    content: bytes
    bytes_a_token: int

    def blocks(self, block_tokens: int) -> Any:
        """The whole blocks of the content, by which prefixes are met."""
        return whole_blocks(self.content, block_tokens * self.bytes_a_token)


@dataclass(frozen=True)
class Door:
    """What a request is checked against."""

    model: str
    max_model_len: int

    def completion(self, body: bytes) -> Asked:
        """Of `/v1/completions`."""
        asked = _parsed(_Completion, body)
        self._require_model(asked.model)
        prompt = _only_one(asked.prompt)
        if isinstance(prompt, str):
            content, tokens = prompt.encode(errors="replace"), None
        else:
            content, tokens = array("i", prompt).tobytes(), len(prompt)
        wanted = COMPLETION_TOKENS if asked.max_tokens is None else asked.max_tokens
        return self._asked(asked, False, content, tokens, wanted)

    def chat(self, body: bytes) -> Asked:
        """Of `/v1/chat/completions`."""
        asked = _parsed(_Chat, body)
        self._require_model(asked.model)
        if not asked.messages:
            raise bad_request(
                "Cannot apply chat template to an empty conversation. Provide at least one message."
            )
        said = "".join(f"<|{message.role}|>{self._text_of(message.content)}" for message in asked.messages)
        wanted = asked.max_tokens if asked.max_completion_tokens is None else asked.max_completion_tokens
        return self._asked(asked, True, f"{said}<|assistant|>".encode(errors="replace"), None, wanted)

    def _require_model(self, model: str | None) -> None:
        if model and model != self.model:
            raise no_such_model(model, self.model)

    def _asked(
        self, asked: _Asked, chat: bool, content: bytes, token_ids: int | None, wanted: int | None
    ) -> Asked:
        _check(asked, wanted)
        self._require_output_room(wanted)
        prompt_tokens = tokens_of(content) if token_ids is None else token_ids
        room = self._room(prompt_tokens)
        tokens = min(CHAT_ANSWER_TOKENS if wanted is None else wanted, room)
        finish = "stop" if wanted is None and tokens < room else "length"
        text = answer_to(content, asked.seed or 0, tokens)
        at, stopped_by = _stopped(text, asked)
        if stopped_by is not None:
            end = at + len(stopped_by.encode())
            tokens, finish = tokens_of(text[:end]), "stop"
            text = text[: end if asked.include_stop_str_in_output else at]
        return Asked(
            model=self.model,
            chat=chat,
            stream=bool(asked.stream),
            usage=bool(asked.stream_options and asked.stream_options.include_usage),
            prompt_tokens=prompt_tokens,
            output_tokens=tokens,
            most_tokens=min(wanted or room, room),
            text=text,
            finish_reason=finish,
            stop_reason=stopped_by,
            priority=asked.priority,
            content=content + text if token_ids is None else content,
            bytes_a_token=BYTES_A_TOKEN if token_ids is None else array("i").itemsize,
        )

    def _require_output_room(self, wanted: int | None) -> None:
        if wanted is not None and wanted > self.max_model_len:
            raise bad_request(
                f"max_tokens={wanted} cannot be greater than max_model_len={self.max_model_len}. "
                "Please request fewer output tokens.",
                "max_tokens",
                wanted,
            )

    def _room(self, prompt_tokens: int) -> int:
        """Tokens that the answer may have; a prompt that leaves none is refused."""
        if prompt_tokens == 0:
            raise bad_request("The decoder prompt cannot be empty")
        if prompt_tokens > self.max_model_len:
            raise bad_request(
                f"This model's maximum context length is {self.max_model_len} tokens. However, your prompt "
                f"contains {prompt_tokens} input tokens, which exceeds this limit even without any output "
                "tokens. Please reduce the length of the input prompt.",
                "input_tokens",
                prompt_tokens,
            )
        if prompt_tokens == self.max_model_len:
            raise _too_few_tokens(0)
        return self.max_model_len - prompt_tokens

    def _text_of(self, content: str | list[dict[str, Any]] | None) -> str:
        if not isinstance(content, list):
            return content or ""
        if any(
            part.get("type", "text") != "text" or not isinstance(part.get("text"), str) for part in content
        ):
            raise bad_request(f"{self.model} is not a multimodal model")
        return "\n".join(part["text"] for part in content)


def _parsed(kind: type[Body], body: bytes) -> Body:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        lines = "".join(f"  {_shown(fault)}\n" for fault in faults[:10])
        count = f"{len(faults)} validation error{'s' if len(faults) > 1 else ''}"
        raise invalid(f"{count}:\n{lines}".rstrip(), _place(faults[0]["loc"])) from error


def _shown(fault: Any) -> dict[str, Any]:
    shown = fault["input"] if isinstance(fault["input"], str) else type(fault["input"]).__name__
    return {"type": fault["type"], "loc": _place(fault["loc"]), "msg": fault["msg"], "input": shown[:200]}


def _place(parts: tuple[int | str, ...]) -> str:
    named = (str(part) for part in parts if part not in ("str", "int") and "[" not in str(part))
    return ".".join(["body", *named])


def _only_one(prompt: Any) -> str | list[int]:
    """The one prompt of a request."""
    if prompt is None or prompt == "":
        raise bad_request("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    if not prompt:
        raise bad_request("You must pass at least one prompt")
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
        if len(prompt) > 1:
            raise bad_request(f"the emulated engine takes one prompt a request, not {len(prompt)}", "prompt")
        prompt = prompt[0]
    whole: str | list[int] = prompt
    return whole


def _too_few_tokens(wanted: int) -> ApiError:
    return bad_request(f"max_tokens must be at least 1, got {wanted}.", "max_tokens", wanted)


def _check(asked: _Asked, wanted: int | None) -> None:
    if asked.stream_options and asked.stream_options.model_fields_set and not asked.stream:
        raise invalid("Stream options can only be defined when `stream=True`.", "stream_options")
    if wanted is not None and wanted < 1:
        raise _too_few_tokens(wanted)
    if asked.n not in (None, 1):
        raise bad_request(f"the emulated engine gives one answer a request (n=1), not {asked.n}", "n")
    if asked.temperature is not None and not 0 <= asked.temperature < float("inf"):
        raise bad_request(
            f"temperature must be non-negative, got {asked.temperature}.", "temperature", asked.temperature
        )
    if asked.top_p is not None and not 0 < asked.top_p <= 1:
        raise bad_request(f"top_p must be in (0, 1], got {asked.top_p}.", "top_p", asked.top_p)
    if asked.stop is not None and any(not stop for stop in _stops(asked)):
        raise bad_request("stop cannot contain an empty string.")


def _stops(asked: _Asked) -> list[str]:
    return [asked.stop] if isinstance(asked.stop, str) else asked.stop or []


def _stopped(text: bytes, asked: _Asked) -> tuple[int, str | None]:
    """Where the first stop string cuts the answer, and which it is."""
    found = [(at, stop) for stop in _stops(asked) if (at := text.find(stop.encode(errors="replace"))) >= 0]
    if not found:
        return len(text), None
    return min(found)
