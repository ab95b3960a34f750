"""An accelerator card, as its datasheet gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from kilocard.errors import KilocardError
from kilocard.facts.dtypes import WeightDtype
from kilocard.facts.limits import LARGEST, Rate, RateOrZero
from kilocard.facts.source import STRICT_ROW, Source

NUMBERS = (
    "memory_gb",
    "memory_bandwidth_gb_per_s",
    "bf16_tflops",
    "fp8_tflops",
    "int8_tops",
    "fp32_tflops",
    "board_power_w",
)
MAY_BE_ZERO = ("fp8_tflops", "int8_tops")
PEAK_FIELDS = {
    WeightDtype.BF16: "bf16_tflops",
    WeightDtype.FP16: "bf16_tflops",
    WeightDtype.INT4: "bf16_tflops",
    WeightDtype.FP8: "fp8_tflops",
    WeightDtype.INT8: "int8_tops",
    WeightDtype.FP32: "fp32_tflops",
}


@dataclass(frozen=True, slots=True)
class Card:
    """A card: GB are 10^9 bytes, peaks are dense (never the doubled "with sparsity" figure).

    None is unknown, 0 says that the card has no such units. FP16 runs at the BF16 peak.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_ROW

    id: str
    name: str
    memory_gb: Rate | None
    memory_bandwidth_gb_per_s: Rate | None
    bf16_tflops: Rate | None
    fp8_tflops: RateOrZero | None
    int8_tops: RateOrZero | None
    link: str
    source: Source
    fp32_tflops: Rate | None = None
    board_power_w: Rate | None = None
    measured_bf16_tflops: Rate | None = None
    measured_source: Source | None = None
    notes: str = ""
    unverified: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in (*NUMBERS, "measured_bf16_tflops"):
            value = getattr(self, field)
            if value is not None and not _plausible(field, value):
                raise KilocardError(
                    f"card {self.id}: {field} is {value}; give a positive number, or null where unknown"
                )
        if self.measured_bf16_tflops is not None and self.measured_source is None:
            raise KilocardError(f"card {self.id}: measured_bf16_tflops needs its own measured_source")
        if unknown := set(self.unverified) - set(NUMBERS) - {"link"}:
            raise KilocardError(
                f"card {self.id}: unverified names {', '.join(sorted(unknown))}, which is no field"
            )

    def __str__(self) -> str:
        return self.id

    def require(self, field: str) -> float:
        """The number in `field`, or an error that names it and the way out where it is unknown."""
        value = getattr(self, field)
        if value is None:
            raise KilocardError(
                f"{field} of {self.id} is unknown (no published figure); put a row of the card that has it "
                "into a YAML file and name that with --facts or KILOCARD_FACTS"
            )
        return float(value)

    @property
    def memory_bytes(self) -> int:
        """The datasheet's memory in bytes, GB as 10^9. Drivers report some per cent more on many cards."""
        return round(self.require("memory_gb") * 1e9)

    @property
    def memory_bandwidth_bytes_per_s(self) -> float:
        """The datasheet's memory bandwidth."""
        return self.require("memory_bandwidth_gb_per_s") * 1e9

    def peak_field(self, weights: WeightDtype) -> str:
        """The field that bounds a matmul with such weights: BF16's where the card has no units for them.

        INT4 weights are W4A16: unpacked and multiplied in 16 bit.
        """
        field = PEAK_FIELDS[weights]
        return field if self.require(field) else "bf16_tflops"

    def peak_flops_per_s(self, weights: WeightDtype) -> float:
        """Dense FLOP/s (or integer op/s) of a matmul with such weights."""
        return self.require(self.peak_field(weights)) * 1e12


def _plausible(field: str, value: float) -> bool:
    return 0 < value < LARGEST or (value == 0 and field in MAY_BE_ZERO)
