"""What an emulated engine can be: the bounds of its settings."""

from __future__ import annotations

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.fleet.build import sequence_room
from kilocard.specs import Case

MOST_PORT = 65_535


def longest_sequence(case: Case) -> int:
    """Tokens of the longest sequence: as asked, or the model's context as far as the KV cache holds it."""
    _require_memory(case)
    room = sequence_room(case)
    context = facts.model(case.model).max_context_tokens
    asked = case.engine.max_model_len
    if asked is None:
        return min(context or room, room)
    if context and asked > context:
        raise KilocardError(
            f"max_model_len {asked} is over the context of {case.model}, {context} tokens: lower it"
        )
    if asked > room:
        raise KilocardError(
            f"max_model_len {asked} is over the {room} tokens that the KV cache holds: lower it, or use more "
            "cards"
        )
    return asked


def served_name(case: Case, asked: str | None) -> str:
    """The name that requests use."""
    if asked is None:
        return case.model
    if not asked.strip():
        raise KilocardError(f"served_model_name {asked!r} is no name: give one, or leave it out")
    return asked


def first_port(port: int, engines: int) -> int:
    """Of ports in a row, or 0 for free ones."""
    highest = MOST_PORT + 1 - engines
    if port and not 1 <= port <= highest:
        raise KilocardError(
            f"{engines} engines from port {port} on are not possible: use a --port up to {highest}, or 0"
        )
    return port


def _require_memory(case: Case) -> None:
    """Refuse a KV cache that is larger than the card, where the card's memory is known."""
    blocks, card = case.engine.kv_blocks, facts.card(case.card)
    if blocks is None or card.memory_gb is None:
        return
    tp = case.engine.tensor_parallel_size
    block_bytes = (
        facts.model(case.model).kv_bytes_per_token(facts.KvDtype(case.kv), tp) * case.engine.block_size
    )
    most = card.memory_bytes // block_bytes
    if blocks > most:
        raise KilocardError(
            f"kv_blocks {blocks} are {blocks * block_bytes / 1e9:,.1f} GB on a {card} of {card.memory_gb:g} "
            f"GB: use at most {most}, or leave it out"
        )
