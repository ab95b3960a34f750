"""How a truth server behaves, what it logs, and both as its command line says it."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """What a request can meet."""

    HANG_BEFORE = "hang-before"
    """No byte is sent."""
    HANG_AFTER = "hang-after"
    """Silent after half of the tokens."""
    HTTP_400 = "400"
    HTTP_429 = "429"
    HTTP_500 = "500"
    HTTP_503 = "503"
    ERROR_EVENT = "error-event"
    """An error event after half of the tokens of a 200 stream, and then an orderly end with [DONE]."""
    REFUSAL_EVENT = "refusal-event"
    """A 200 stream whose first event says 503, as vLLM's bounded queue does."""
    NO_LAST_WORD = "no-last-word"
    """The stream ends in order after half of the tokens, but with neither finish reason nor [DONE]."""
    TRUNCATE = "truncate"
    """The connection is closed in the middle of an event."""
    RESET = "reset"
    """The connection is reset."""
    GARBAGE = "garbage"
    """An answer that is not HTTP."""
    EXIT = "exit"
    """The whole server dies."""


@dataclass(frozen=True, slots=True)
class Script:
    """How the server behaves. `faults` maps a request's number, from 0, to what it meets; -1 is every one."""

    ttft_s: float = 0.05
    tpot_s: float = 0.01
    chunk: int = 1
    role_frame: bool = False
    reasoning: bool = False
    cached_tokens: int = 0
    faults: dict[int, Fault] = field(default_factory=dict)

    def fault_of(self, number: int) -> Fault | None:
        """What the request with this number meets."""
        return self.faults.get(number, self.faults.get(-1))


@dataclass(slots=True)
class Served:
    """What one request really got. Times are seconds since it was read."""

    request_id: str
    prompt_tokens: int
    output_tokens: int
    first_token_s: float | None = None
    last_token_s: float | None = None
    fault: str | None = None


def to_arguments(script: Script) -> list[str]:
    """The command line that asks for a script."""
    arguments = [
        "--ttft",
        str(script.ttft_s),
        "--tpot",
        str(script.tpot_s),
        "--chunk",
        str(script.chunk),
        "--cached",
        str(script.cached_tokens),
    ]
    arguments += ["--role"] if script.role_frame else []
    arguments += ["--reasoning"] if script.reasoning else []
    for number, fault in script.faults.items():
        arguments += ["--fault", f"{fault.value}@{'all' if number < 0 else number}"]
    return arguments


def from_arguments(arguments: Sequence[str] | None) -> tuple[int, Script]:
    """Port and script that a command line asks for; None reads the process's own."""
    parser = ArgumentParser(description="A server that plays an engine by a known schedule.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ttft", type=float, default=0.05)
    parser.add_argument("--tpot", type=float, default=0.01)
    parser.add_argument("--chunk", type=int, default=1, help="tokens packed into one event")
    parser.add_argument("--cached", type=int, default=0, help="cached prompt tokens that usage tells")
    parser.add_argument("--role", action="store_true", help="begin with a frame without a token")
    parser.add_argument("--reasoning", action="store_true", help="chat deltas are reasoning")
    parser.add_argument(
        "--fault",
        type=_fault_at,
        action="append",
        default=[],
        metavar="FAULT@N",
        help=f"N from 0, or all; {', '.join(Fault)}",
    )
    given = parser.parse_args(arguments)
    faults = dict(given.fault)
    return given.port, Script(
        given.ttft, given.tpot, given.chunk, given.role, given.reasoning, given.cached, faults
    )


def _fault_at(text: str) -> tuple[int, Fault]:
    """`500@3` or `500@all`."""
    fault, _, number = text.partition("@")
    return (-1 if number == "all" else int(number)), Fault(fault)
