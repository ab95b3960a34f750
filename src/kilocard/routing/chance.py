"""Random numbers whose whole state is passed in: the same in compiled code, in plain Python and in a
gateway."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled


def new_random(seed: int) -> NDArray[np.int64]:
    """The state of L'Ecuyer's combined generator (CACM 31:6, 1988), of period 2.3e18."""
    return np.array([1 + seed % 2_147_483_562, 1 + (seed * 7919 + 12_345) % 2_147_483_398, -1], np.int64)


@compiled
def below(random: NDArray[np.int64], limit: int) -> int:
    """A number in [0, limit), uniform to one part in 2^31 / limit."""
    random[0] = random[0] * 40_014 % 2_147_483_563
    random[1] = random[1] * 40_692 % 2_147_483_399
    return (random[0] - random[1]) % 2_147_483_562 * limit // 2_147_483_562
