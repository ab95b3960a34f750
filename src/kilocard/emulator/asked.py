"""One request of the OpenAI API: read, checked as vLLM checks it, and turned into what an engine needs.

Of the many options those that bear on time and length are heeded; log-probabilities, tools and the like are
accepted and have no effect. Tokens of text are an estimate; lists of token ids are exact.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

from kilocard.emulator.body import Chat, Completion, Request, parsed
from kilocard.emulator.errors import ApiError, bad_request, no_such_model
from kilocard.emulator.text import BYTES_A_TOKEN, answer_to, tokens_of, whole_blocks

CHAT_ANSWER_TOKENS = 256
"""Where a chat sets no `max_tokens`, the answer ends by itself here."""
COMPLETION_TOKENS = 16


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
        asked = parsed(Completion, body)
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
        asked = parsed(Chat, body)
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
        self, asked: Request, chat: bool, content: bytes, token_ids: int | None, wanted: int | None
    ) -> Asked:
        self._require_output_room(wanted)
        prompt_tokens = tokens_of(content) if token_ids is None else token_ids
        room = self._room(prompt_tokens)
        most = room if wanted is None else min(wanted, room)
        asked.check(most, asked.sample_logprobs)
        ends_by_itself = wanted is None and not asked.ignore_eos
        tokens = min(max(CHAT_ANSWER_TOKENS, asked.min_tokens), most) if ends_by_itself else most
        finish = "stop" if tokens < most else "length"
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
            most_tokens=most,
            text=text,
            finish_reason=finish,
            stop_reason=stopped_by,
            priority=asked.priority,
            content=content + text if token_ids is None else content,
            bytes_a_token=BYTES_A_TOKEN if token_ids is None else array("i").itemsize,
        )

    def _require_output_room(self, wanted: int | None) -> None:
        if wanted is not None and wanted < 1:
            raise _too_few_tokens(wanted)
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


def _stopped(text: bytes, asked: Request) -> tuple[int, str | None]:
    """Where the first stop string cuts the answer, and which it is."""
    found = []
    for stop in asked.stops:
        sought = stop.encode(errors="replace")
        from_byte = max(0, BYTES_A_TOKEN * asked.min_tokens - len(sought) + 1)
        if (at := text.find(sought, from_byte)) >= 0:
            found.append((at, stop))
    if not found:
        return len(text), None
    return min(found)
