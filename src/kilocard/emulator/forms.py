"""The form that an answer is asked to have, and the tools that it may call: checked as vLLM does, no more."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from kilocard.emulator.errors import bad_request


class _Named(BaseModel):
    name: str


class ResponseFormat(BaseModel):
    """Of either endpoint."""

    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: _Named | None = None

    def check(self) -> None:
        """Refuse a schema that is not there."""
        if self.type == "json_schema" and self.json_schema is None:
            raise bad_request(
                "When response_format type is 'json_schema', the 'json_schema' field must be provided.",
                "response_format",
            )


class Tool(BaseModel):
    """A function that a chat may call."""

    type: Literal["function"] = "function"
    function: _Named


def check_tools(tools: list[Tool] | None, choice: str | Tool | None) -> None:
    """Refuse a choice among tools that there are not."""
    if tools == []:
        raise bad_request(
            "`tools` must not be an empty array. "
            "Either provide at least one tool or omit the field entirely.",
            "tools",
        )
    if choice in (None, "none"):
        return
    if tools is None:
        raise bad_request("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if isinstance(choice, Tool):
        if choice.function.name not in {tool.function.name for tool in tools}:
            raise bad_request(
                "The tool specified in `tool_choice` does not match any of the specified `tools`",
                "tool_choice",
            )
    elif choice not in ("auto", "required"):
        raise bad_request(
            f'Invalid value for `tool_choice`: {choice}! Only named tools, "none", "auto" or "required" are '
            "supported.",
            "tool_choice",
        )
