"""The requests of a load test, as the scheduler takes them and as a run keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.engine_model.state import Rows, new_requests
from kilocard.errors import KilocardError
from kilocard.record import Status
from kilocard.specs.case import EngineSettings
from kilocard.specs.demand import MOST_SECONDS
from kilocard.workload import Request


def blocks_of(request: Request, settings: EngineSettings) -> int:
    """KV blocks that it holds at its end."""
    return -(-(request.prompt_tokens + request.max_tokens) // settings.block_size)


def check(request: Request, settings: EngineSettings) -> None:
    """Refuse what an engine would refuse, or what no clock can hold."""
    about = f"request {request.request_id}"
    if min(request.prompt_tokens, request.max_tokens) < 1:
        raise KilocardError(
            f"{about} has {request.prompt_tokens} prompt and {request.max_tokens} output tokens: give at "
            "least one of each"
        )
    tokens, limit = request.prompt_tokens + request.max_tokens, settings.max_model_len
    if limit and tokens > limit:
        raise KilocardError(
            f"{about} has {tokens} tokens, over max_model_len {limit}: shorten it, or raise that"
        )
    at_s = request.scheduled_s or 0.0
    if not 0 <= at_s <= MOST_SECONDS:
        raise KilocardError(f"{about} arrives after {at_s} s: give 0 to {MOST_SECONDS:,} s")


def _priority(request: Request) -> int:
    """vLLM's number, the lowest first."""
    given = request.priority or "0"
    if not given.lstrip("-").isdecimal():
        raise KilocardError(
            f"request {request.request_id} has the priority {given!r}: an engine knows whole numbers"
        )
    return int(given)


def request_table(requests: Sequence[Request]) -> Rows:
    """As the scheduler takes them."""
    rows = new_requests(len(requests))
    rows.prompt = [request.prompt_tokens for request in requests]
    rows.output = [request.max_tokens for request in requests]
    rows.priority = [_priority(request) for request in requests]
    rows.arrival_ps = [round((request.scheduled_s or 0.0) * PICOSECONDS) for request in requests]
    return rows


def run_rows(
    requests: Sequence[Request], asked: Rows, gaps_s: Mapping[int, float], extra_s: float
) -> list[dict[str, Any]]:
    """As a run keeps them; `gaps_s` is the longest wait between two tokens of each that has two."""
    return [
        {
            "request_id": request.request_id,
            "scheduled_s": request.scheduled_s,
            "sent_s": row.arrival_ps / PICOSECONDS,
            "first_token_s": row.first_ps / PICOSECONDS + extra_s,
            "last_token_s": row.last_ps / PICOSECONDS + extra_s,
            "prompt_tokens": request.prompt_tokens,
            "output_tokens": request.max_tokens,
            "max_tokens": request.max_tokens,
            "chunks": request.max_tokens,
            "max_gap_s": gaps_s.get(number),
            "stage": request.stage,
            "status": Status.OK.value,
            "queue_s": (row.scheduled_ps - row.arrival_ps) / PICOSECONDS,
        }
        for number, (request, row) in enumerate(zip(requests, asked, strict=True))
    ]
