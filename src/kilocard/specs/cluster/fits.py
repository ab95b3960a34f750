"""Whether what a pool asks for can be had: cards, heads, slots, replicas that stay warm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.specs.cluster.overrides import Place
from kilocard.specs.cluster.pools import Pool
from kilocard.specs.engine import EngineSpec

if TYPE_CHECKING:
    from kilocard.facts import Model
    from kilocard.specs.cluster.spec import ClusterSpec

Told = Iterator[tuple[Place, str]]


def misfits(spec: ClusterSpec) -> Told:
    """What cannot be had, pool by pool."""
    for number, pool in enumerate(spec.pools):
        engine, known = spec.engine_of(pool), _known(spec.weights_of(pool).path, spec.model_of(pool))
        for key, told in (
            *_heads(pool, engine, known),
            *_context(pool, engine, known),
            *_slots(spec, pool, engine),
            *_warm(pool),
            *_cards(pool, engine.ranks),
        ):
            is_common = key[0] == "engine" and getattr(pool.engine, str(key[-1]), 0) is None
            yield (key if is_common else ("pools", number, *key)), told


def _known(path: str | None, name: str) -> Model | None:
    """The model's facts, where they are in the catalogue or beside the weights."""
    for given in (path, name):
        if given:
            with suppress(KilocardError, OSError):
                return facts.model(given)
    return None


def _heads(pool: Pool, engine: EngineSpec, known: Model | None) -> Told:
    tp = engine.tensor_parallel_size
    if known is None or tp == 1:
        return
    if known.attention_heads % tp:
        fits = [size for size in (1, 2, 4, 8, 16, 32) if known.attention_heads % size == 0]
        yield (
            ("engine", "tensor_parallel_size"),
            f"tensor_parallel_size {tp} does not divide the {known.attention_heads} attention heads of "
            f"{known.id}: "
            f"take {' or '.join(map(str, fits))}",
        )


def _context(pool: Pool, engine: EngineSpec, known: Model | None) -> Told:
    longest = known.max_context_tokens if known else None
    if not longest or not engine.max_model_len or any("rope" in told for told in engine.extra_args):
        return
    if engine.max_model_len > longest:
        yield (
            ("engine", "max_model_len"),
            f"max_model_len {engine.max_model_len} is over the {longest} tokens that {engine.model} was made "
            "for: lower it, or stretch its positions (rope) in extra_args",
        )


def _slots(spec: ClusterSpec, pool: Pool, engine: EngineSpec) -> Told:
    if engine.max_num_seqs is None:
        return
    slots = engine.max_num_seqs * engine.data_parallel_size
    caps = {pool.cap, *(pool.cap_of(replica) for replica in pool.replicas)}
    if over := [cap for cap in caps if cap > slots or cap == 0]:
        told = "no cap" if 0 in over else f"a cap of {max(over)}"
        yield (
            ("cap",),
            f"pool {pool.name} has {told}, and an engine of it runs {slots} at once (max_num_seqs): the rest "
            f"would wait inside the engine, where nobody orders them; give cap {slots} or less",
        )


def _warm(pool: Pool) -> Told:
    if pool.count is None:
        return
    if pool.min_warm >= pool.count and pool.min_warm:
        yield (
            ("min_warm",),
            f"min_warm {pool.min_warm} of {pool.count} replicas leaves none that may be stopped: no change "
            "could be rolled out; lower it, or add a replica",
        )
    if pool.scaling and not pool.scaling.least <= pool.count <= pool.scaling.most:
        yield (
            ("scaling",),
            f"replicas {pool.count} are not from scaling.least {pool.scaling.least} to scaling.most "
            f"{pool.scaling.most}: move one",
        )
    if pool.scaling and pool.scaling.least < pool.min_warm:
        yield (
            ("scaling", "least"),
            f"scaling.least {pool.scaling.least} is under min_warm {pool.min_warm}: raise it",
        )


def _cards(pool: Pool, each: int) -> Told:
    if pool.count is None or pool.nodes is None:
        return
    if each > pool.cards_per_node and each % pool.cards_per_node:
        yield (
            ("engine",),
            f"a replica of pool {pool.name} takes {each} cards, which whole nodes of {pool.cards_per_node} "
            "do not give: make the product of its parallel sizes a multiple",
        )
        return
    most = _most_replicas(pool, each)
    asked = max(pool.count, pool.scaling.most if pool.scaling else 0)
    if asked > most:
        yield (
            ("replicas",),
            f"{asked} replicas of {each} {'card' if each == 1 else 'cards'} do not fit on {pool.nodes} nodes "
            f"of {pool.cards_per_node}: at most {most} do; add nodes, or ask for fewer",
        )


def _most_replicas(pool: Pool, each: int) -> int:
    """A replica of one node's cards or fewer stays inside one node."""
    assert pool.nodes is not None
    if each > pool.cards_per_node:
        return pool.nodes // (each // pool.cards_per_node)
    return pool.nodes * (pool.cards_per_node // each)
