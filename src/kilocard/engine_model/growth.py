"""How the running requests grow into KV blocks, counted only when it could matter.

A decoding request takes a block every `block_tokens` steps. `slack_blocks` is a floor under the free blocks:
while it suffices, nobody is counted; where it does not, the count is made exact. Either way the decisions are
the same.
"""

from __future__ import annotations

from typing import Any

from kilocard.engine_model.compiled import compiled
from kilocard.engine_model.kv_cache import take
from kilocard.engine_model.state import PREFILLS, Rows, Tables


@compiled
def blocks_at(replica: Any, slot: Any, plan: int) -> int:
    """Blocks of a decoding request once plan `plan` is made."""
    tokens = slot.offset + min(plan, slot.last_plan)
    return replica.state_blocks + (tokens + replica.block_tokens - 1) // replica.block_tokens


@compiled
def count_blocks(entries: Rows, replica: Any, slot: Any, plan: int) -> None:
    """Take the blocks that a request has grown into by plan `plan`."""
    if slot.last_plan != PREFILLS and slot.blocks > 0:
        grown = blocks_at(replica, slot, plan) - slot.blocks
        if grown > 0:
            take(entries, replica, grown)
            slot.blocks += grown


@compiled
def count_all(entries: Rows, replica: Any, slots: Rows, plan: int) -> None:
    """Make the count of free blocks exact as of plan `plan`."""
    for place in range(replica.occupied):
        count_blocks(entries, replica, slots[place], plan)
    replica.slack_blocks = replica.free_blocks


@compiled
def settle(entries: Rows, replica: Any, slots: Rows, plan: int) -> None:
    """Before blocks are given back or looked up: count, if what is not counted yet could reach a named block.

    Which names are forgotten depends on the order of taking and giving back; all else does not.
    """
    if replica.free_blocks - replica.slack_blocks > replica.unnamed_blocks:
        count_all(entries, replica, slots, plan)


@compiled
def growth(replica: Any, slots: Rows, plan: int) -> int:
    """Blocks that the decoding requests lack to make plan `plan`."""
    lacking = 0
    for place in range(replica.occupied):
        if slots[place].last_plan != PREFILLS and slots[place].blocks > 0:
            lacking += max(0, blocks_at(replica, slots[place], plan) - slots[place].blocks)
    return lacking


@compiled
def reserve(tables: Tables, replica: Any, slots: Rows, plan: int, steps: int) -> int:
    """Set blocks aside for `steps` plans from `plan` on; returns for how many of them there are enough."""
    most = replica.decoding * ((steps + replica.block_tokens - 1) // replica.block_tokens)
    if most > replica.slack_blocks:
        count_all(tables.entries, replica, slots, plan - 1)
        low = 0
        high = steps
        while low < high:
            middle = (low + high + 1) // 2
            if growth(replica, slots, plan + middle - 1) <= replica.free_blocks:
                low = middle
            else:
                high = middle - 1
        steps = low
        most = growth(replica, slots, plan + steps - 1)
    replica.slack_blocks -= most
    return steps
