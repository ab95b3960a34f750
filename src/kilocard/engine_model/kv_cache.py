"""Paged KV: blocks by count, prefixes by name, and one free list from which the oldest is taken first.

vLLM hashes the full blocks of a request, appends them to the free list when it ends, last block first, and
keeps their contents until they are taken from its front; a prompt that begins like an earlier one finds them
by hash. A block that is not full has no hash, and goes to the front at once. Most blocks can never be met
again, hash or not, so they need no names: only their number and their place between the named ones matter. A
name is a stream of tokens that several prompts share; an entry is what one replica holds of it.
"""

from __future__ import annotations

from typing import Any

from kilocard.engine_model.compiled import compiled
from kilocard.engine_model.state import NOTHING, Rows, Tables, place_of


@compiled
def find(entries: Rows, replica: Any, stream: int) -> int:
    """The entry of a stream on a replica, or NOTHING."""
    place = place_of(replica.number, stream, len(entries))
    while entries[place].place != NOTHING:
        entry = entries[entries[place].place]
        if entry.stream == stream and entry.replica == replica.number:
            break
        place = (place + 1) & (len(entries) - 1)
    return entries[place].place


@compiled
def name(entries: Rows, replica: Any, stream: int, first_block: int) -> int:
    """A new, empty entry for a stream on a replica, held by one."""
    at = entries[0].newer
    entry = entries[at]
    entries[0].newer = entry.newer
    entries[0].cached -= 1
    entry.replica = replica.number
    entry.stream = stream
    entry.first_block = first_block
    entry.cached = 0
    entry.references = 1
    place = place_of(replica.number, stream, len(entries))
    while entries[place].place != NOTHING:
        place = (place + 1) & (len(entries) - 1)
    entries[place].place = at
    return at


@compiled
def forget(entries: Rows, replica: Any, at: int) -> None:
    """Remove an entry; later ones of its cluster move up, so that searches still meet them."""
    mask = len(entries) - 1
    hole = place_of(replica.number, entries[at].stream, len(entries))
    while entries[hole].place != at:
        hole = (hole + 1) & mask
    place = (hole + 1) & mask
    while entries[place].place != NOTHING:
        other = entries[entries[place].place]
        begins = place_of(other.replica, other.stream, len(entries))
        if ((place - begins) & mask) >= ((place - hole) & mask):
            entries[hole].place = entries[place].place
            hole = place
        place = (place + 1) & mask
    entries[hole].place = NOTHING
    entries[at].newer = entries[0].newer
    entries[0].newer = at
    entries[0].cached += 1


@compiled
def full_blocks(replica: Any, tokens: int) -> int:
    """Blocks of so many tokens that bear a hash."""
    return tokens // replica.block_tokens * replica.prefix_caching


@compiled
def free_unhashed(replica: Any, blocks: int) -> None:
    """Give back blocks without a hash: they are used again before all others."""
    replica.free_blocks += blocks
    replica.unnamed_blocks += blocks


@compiled
def free_unnamed(entries: Rows, replica: Any, blocks: int) -> None:
    """Give back hashed blocks that no prompt will meet again: they join the young end of the free list."""
    replica.free_blocks += blocks
    if replica.newest == NOTHING:
        replica.unnamed_blocks += blocks
    else:
        entries[replica.newest].unnamed_after += blocks


@compiled
def free_entry(entries: Rows, replica: Any, at: int) -> None:
    """Give back an entry that nobody refers to: its blocks can still be met, until they are taken."""
    entry = entries[at]
    replica.free_blocks += entry.cached
    entry.unnamed_after = 0
    entry.older = replica.newest
    entry.newer = NOTHING
    if replica.newest == NOTHING:
        replica.oldest = at
    else:
        entries[replica.newest].newer = at
    replica.newest = at


@compiled
def unlink(entries: Rows, replica: Any, at: int) -> None:
    """Take an entry out of the free list; the unnamed blocks behind it stay where they are."""
    entry = entries[at]
    if entry.older == NOTHING:
        replica.unnamed_blocks += entry.unnamed_after
        replica.oldest = entry.newer
    else:
        entries[entry.older].unnamed_after += entry.unnamed_after
        entries[entry.older].newer = entry.newer
    if entry.newer == NOTHING:
        replica.newest = entry.older
    else:
        entries[entry.newer].older = entry.older


@compiled
def unname(entries: Rows, replica: Any, at: int) -> None:
    """Let a free entry's blocks stand where they are, but never be met again."""
    if entries[at].older == NOTHING:
        replica.unnamed_blocks += entries[at].cached
    else:
        entries[entries[at].older].unnamed_after += entries[at].cached
    unlink(entries, replica, at)
    forget(entries, replica, at)


@compiled
def take(entries: Rows, replica: Any, blocks: int) -> None:
    """Take free blocks from the old end; named ones on the way are forgotten, deepest first."""
    replica.free_blocks -= blocks
    while blocks > replica.unnamed_blocks:
        blocks -= replica.unnamed_blocks
        replica.unnamed_blocks = 0
        at = replica.oldest
        lost = min(blocks, entries[at].cached)
        entries[at].cached -= lost
        blocks -= lost
        if entries[at].cached == 0:
            unlink(entries, replica, at)
            forget(entries, replica, at)
    replica.unnamed_blocks -= blocks


@compiled
def last_block(tables: Tables, replica: Any, request: Any, j: int) -> int:
    """Full blocks of a prompt up to the end of its `j`-th stream; 0 before the first."""
    if j < 0:
        return 0
    return tables.paths[request.path_at + j].end_tokens // replica.block_tokens


@compiled
def own_stream(request: Any) -> int:
    """The name of what a preempted request leaves behind."""
    return -1 - request.number


@compiled
def look_up(tables: Tables, replica: Any, request: Any, hold: bool) -> tuple[int, int, int, int]:
    """What a prompt finds: blocks in all, those of named streams, those that count as free now, streams
    passed.

    With `hold`, the request refers to them from now on.
    """
    entries = tables.entries
    most = (request.prompt + request.made - 1) // replica.block_tokens
    hits = revived = passed = 0
    for j in range(request.path_length):
        end = last_block(tables, replica, request, j)
        if end > hits:
            at = find(entries, replica, tables.paths[request.path_at + j].stream)
            if at == NOTHING or hits >= most or entries[at].first_block != hits:
                break
            if entries[at].references == 0:
                revived += entries[at].cached
                if hold:
                    unlink(entries, replica, at)
                    replica.free_blocks -= entries[at].cached
            if hold:
                entries[at].references += 1
            hits += min(entries[at].cached, end - hits, most - hits)
        passed += 1
        if hits < end:
            break
    shared = hits
    if request.preemptions > 0:
        at = find(entries, replica, own_stream(request))
        if at != NOTHING and entries[at].first_block == hits:
            found = min(entries[at].cached, most - hits)
            revived += found
            hits += found
            if hold:
                unlink(entries, replica, at)
                replica.free_blocks -= entries[at].cached
                free_unnamed(entries, replica, entries[at].cached - found)
                forget(entries, replica, at)
    return hits, shared, revived, passed


@compiled
def publish(tables: Tables, replica: Any, slot: Any, computed: int) -> None:
    """Name the full blocks that a request has computed of its streams, unless somebody was there first."""
    request = tables.requests[slot.request]
    for j in range(max(slot.held - 1, 0), request.path_length):
        whole = last_block(tables, replica, request, j)
        end = min(computed // replica.block_tokens, whole)
        if end > slot.shared_blocks:
            stream = tables.paths[request.path_at + j].stream
            at = find(tables.entries, replica, stream)
            if at == NOTHING and j == slot.held:
                at = name(tables.entries, replica, stream, slot.shared_blocks)
                slot.held += 1
            if at == NOTHING or j >= slot.held:
                return
            entry = tables.entries[at]
            if entry.first_block + entry.cached == slot.shared_blocks:
                entry.cached += end - slot.shared_blocks
                slot.shared_blocks = end
        if slot.shared_blocks < whole:
            return
        slot.held = max(slot.held, j + 1)


@compiled
def drop(tables: Tables, replica: Any, slot: Any, full: int) -> None:
    """Give back all that a slot holds, `full` blocks of it hashed, its last blocks first."""
    request = tables.requests[slot.request]
    free_unhashed(replica, slot.blocks - full)
    free_unnamed(tables.entries, replica, full - slot.shared_blocks)
    for j in range(slot.held - 1, -1, -1):
        if last_block(tables, replica, request, j) > last_block(tables, replica, request, j - 1):
            at = find(tables.entries, replica, tables.paths[request.path_at + j].stream)
            tables.entries[at].references -= 1
            if tables.entries[at].references == 0:
                free_entry(tables.entries, replica, at)
