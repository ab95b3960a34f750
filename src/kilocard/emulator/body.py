"""The JSON body of a request: read as vLLM reads it, with its words where it cannot be."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kilocard.emulator.errors import bad_request, invalid
from kilocard.emulator.forms import ResponseFormat, Tool, check_tools
from kilocard.emulator.sampling import INT64, LogProbs, Sampling

MOST_TOLD = 200
ALTERNATIVES = ("str", "int", Tool.__name__)
TokenId = Annotated[int, Field(ge=0, lt=2**31)]


class _StreamOptions(BaseModel):
    model_config = ConfigDict(extra="allow")

    include_usage: bool | None = None


class Request(Sampling):
    """What both endpoints take; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    model: str | None = None
    max_tokens: int | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    priority: Annotated[int, Field(ge=-INT64, le=INT64 - 1)] = 0
    response_format: ResponseFormat | None = None

    @property
    def sample_logprobs(self) -> int | None:
        """How many log-probabilities of each token are asked for."""
        return None

    def check_fields(self) -> None:
        """Refuse fields that do not go together."""
        if self.stream_options and self.stream_options.model_fields_set and not self.stream:
            raise bad_request("Stream options can only be defined when `stream=True`.", "stream_options")
        if self.stream and self.prompt_logprobs:
            raise bad_request("`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs")
        if self.response_format:
            self.response_format.check()


class Completion(Request):
    """Of `/v1/completions`."""

    n: int = 1
    logprobs: LogProbs = None
    prompt: str | list[TokenId] | list[str] | list[list[TokenId]] | None = None

    @property
    def sample_logprobs(self) -> int | None:
        """As asked for."""
        return self.logprobs


class Message(BaseModel):
    """One turn of a chat."""

    model_config = ConfigDict(extra="allow")

    role: str
    content: str | list[dict[str, Any]] | None = None


class Chat(Request):
    """Of `/v1/chat/completions`."""

    messages: list[Message]
    max_completion_tokens: int | None = None
    logprobs: bool | None = False
    top_logprobs: LogProbs = None
    tools: list[Tool] | None = None
    tool_choice: str | Tool | None = None

    @property
    def sample_logprobs(self) -> int | None:
        """As many as the likeliest that are asked for."""
        return self.top_logprobs if self.logprobs else None

    def check_fields(self) -> None:
        """Those of a chat too."""
        super().check_fields()
        if self.top_logprobs and not self.logprobs:
            raise bad_request("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")
        check_tools(self.tools, self.tool_choice)


Body = TypeVar("Body", bound=Request)


def parsed(kind: type[Body], content: bytes) -> Body:
    """A request, or an ApiError that names its first fault."""
    try:
        body = kind.model_validate_json(content)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        lines = "".join(f"  {_shown(fault)}\n" for fault in faults[:10])
        count = f"{len(faults)} validation error{'s' if len(faults) > 1 else ''}"
        raise invalid(f"{count}:\n{lines}".rstrip(), _place(faults[0]["loc"])) from error
    body.check_fields()
    return body


def _shown(fault: Any) -> dict[str, Any]:
    given = fault["input"]
    if isinstance(given, list | dict | bytes):
        given = f"<{type(given).__name__} of {len(given)} {'bytes' if isinstance(given, bytes) else 'items'}>"
    told = str(given)[:MOST_TOLD]
    return {"type": fault["type"], "loc": _place(fault["loc"]), "msg": fault["msg"], "input": told}


def _place(parts: tuple[int | str, ...]) -> str:
    """A field as its asker names it, without the ways in which it was tried to be read."""
    named = (str(part) for part in parts if part not in ALTERNATIVES and "[" not in str(part))
    return ".".join(["body", *named])
