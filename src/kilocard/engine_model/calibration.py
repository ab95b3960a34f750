"""A calibration: coefficients, where they come from, and how far they have been off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kilocard.engine_model.coefficients import Coefficients


@dataclass(frozen=True, slots=True)
class Calibration:
    """Coefficients with their source, and the median errors that this kind of calibration has shown."""

    name: str
    coefficients: Coefficients
    source: str
    expected_error: dict[str, Any] = field(default_factory=dict)
