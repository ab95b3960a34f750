"""What an engine is started from: all that makes two of them the same, and nothing else."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property

from pydantic import ConfigDict, Field

from kilocard.specs.cluster import ClusterSpec, ModelWeights, Pool, Secret
from kilocard.specs.engine import EngineSpec
from kilocard.specs.written import Written

FIRST_VERSION = "v1"


class Recipe(Written):
    """Of one engine. Secrets are told by where they stand, never by what they are."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), ignored_types=(cached_property,)
    )

    engine: EngineSpec
    environment: dict[str, str | Secret] = Field(default_factory=dict)
    weights: ModelWeights = ModelWeights()
    version: str = FIRST_VERSION
    card: str | None = None
    is_emulated: bool = False
    stop_s: float = 30.0

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits that differ where anything differs."""
        told = self.model_dump(mode="json")
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def recipe_of(spec: ClusterSpec, pool: Pool, *, is_emulated: bool) -> Recipe:
    """What the engines of a pool are started from."""
    return Recipe(
        engine=spec.engine_of(pool),
        environment=pool.engine.over(spec.engine).environment,
        weights=spec.weights_of(pool),
        version=pool.version or FIRST_VERSION,
        card=pool.card if is_emulated else None,
        is_emulated=is_emulated,
        stop_s=spec.lifecycle.stop_s,
    )
