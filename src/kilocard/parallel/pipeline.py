"""What a pipeline of cards wastes: the stages that wait for the first batch, and for the last."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kilocard.errors import KilocardError
from kilocard.parallel.given import amounts, count

Floats = NDArray[np.float64]


def bubble_share(batches: ArrayLike, stages: int) -> Floats:
    """Share of its time that each of p stages stands idle while m equal batches pass once.

    (p − 1) / (m + p − 1) (Huang et al., GPipe, NeurIPS 2019). A long prompt in m chunks is m batches.
    """
    passing, waits = _batches(batches), _stages(stages) - 1
    return np.asarray(waits / (passing + waits))


def idle_share(batches: ArrayLike, stages: int) -> Floats:
    """The same where m batches go round for ever, as decoding does: 1 − m / p, and none from m = p on."""
    return np.asarray(np.maximum(0.0, 1 - _batches(batches) / _stages(stages)))


def stage_layers(layers: int, stages: int) -> list[int]:
    """Layers of each stage as vLLM deals them: even, and the rest to the later ones, but not to the last.

    The last stage has the LM head too.
    """
    stages, layers = _stages(stages), count(layers, "layers: a model has 1 or more")
    if stages > layers:
        raise KilocardError(f"{stages} stages of {layers} layers: each stage needs one, so {layers} at most")
    each, rest = divmod(layers, stages)
    dealt = [each] * stages
    for number in range(2, rest + 2):
        dealt[-number] += 1
    return dealt


def _batches(batches: ArrayLike) -> Floats:
    return amounts(batches, "batches", 1)


def _stages(stages: int) -> int:
    return count(stages, "stages: a pipeline has 1 or more")
