"""Number formats of weights and KV, and the bytes that they take with their scales."""

from __future__ import annotations

from enum import StrEnum

from kilocard.errors import KilocardError, near_match

INT4_GROUP = 128
FP8_BLOCK = 128 * 128


class WeightDtype(StrEnum):
    """Formats of weights. INT4 is W4A16 as GPTQ and AWQ write it, INT8 is W8A8, FP8 is W8A8 in blocks."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"

    @property
    def quantized(self) -> bool:
        """Whether only the linear layers are stored so, the rest in 16 bit."""
        return self in (WeightDtype.FP8, WeightDtype.INT8, WeightDtype.INT4)

    @property
    def unquantized_bytes(self) -> int:
        """Bytes of a weight that quantisers leave alone: embeddings, LM head, router, norms."""
        return 4 if self is WeightDtype.FP32 else 2

    def linear_bytes(self, parameters: int, outputs: int) -> int:
        """Bytes of linear layers with so many weights and output channels, scales included.

        INT4: 4 bits, and per group of 128 one FP16 scale and one 4-bit zero point: 4.156 bits a weight
        (AWQ and GPTQ, group_size 128). INT8: one FP32 scale an output channel (compressed-tensors W8A8).
        FP8: one FP32 scale a 128 x 128 block (DeepSeek-V3 and Qwen3 FP8 checkpoints).
        """
        match self:
            case WeightDtype.INT4:
                return -(-parameters * (4 * INT4_GROUP + 16 + 4) // (8 * INT4_GROUP))
            case WeightDtype.INT8:
                return parameters + 4 * outputs
            case WeightDtype.FP8:
                return parameters + -(-4 * parameters // FP8_BLOCK)
            case _:
                return parameters * self.unquantized_bytes


class KvDtype(StrEnum):
    """Formats of the KV cache; 8-bit ones with per-tensor scales, which take no room."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return 1 if self in (KvDtype.FP8, KvDtype.INT8) else 2


def weight_dtype(name: str) -> WeightDtype:
    """The weight format of that name."""
    try:
        return WeightDtype(name)
    except ValueError:
        raise KilocardError(
            f"--weights {name!r} is no weight format: {near_match(str(name), map(str, WeightDtype))}"
        ) from None


def kv_dtype(name: str) -> KvDtype:
    """The KV format of that name."""
    try:
        return KvDtype(name)
    except ValueError:
        raise KilocardError(
            f"--kv {name!r} is no KV format: {near_match(str(name), map(str, KvDtype))}"
        ) from None
