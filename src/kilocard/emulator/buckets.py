"""The bucket bounds of vLLM's histograms, as version 0.32 has them."""

from __future__ import annotations

import numpy as np

from kilocard.engine_model.compiled import PICOSECONDS

REQUEST_LATENCY_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_GAP_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0),
)
LATENESS_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Not vLLM's: how late, on the machine's clock, the tokens of a step left."""
PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)

GAP_BOUNDS_PS = np.array([round(bound * PICOSECONDS) for bound in TOKEN_GAP_S])
STEP_TOKEN_BOUNDS = np.array(STEP_TOKENS)


def token_bounds(max_model_len: int) -> tuple[float, ...]:
    """1, 2, 5, 10 … up to the longest sequence."""
    bounds = [step * 10**power for power in range(len(str(max_model_len))) for step in (1, 2, 5)]
    return tuple(float(bound) for bound in bounds if bound <= max_model_len)
