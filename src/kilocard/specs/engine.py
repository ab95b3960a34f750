"""What one engine is asked to be, in vLLM's own names."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from kilocard.specs.numbers import Count, Positive, Sequences, Tokens, Whole
from kilocard.specs.written import Written

EMBEDDED_MODEL = "smollm2-135m"
EMBEDDED_ALIASES = frozenset({EMBEDDED_MODEL, "smollm2", "smollm2-135m-instruct"})
RANDOM_MODEL = "random-qwen3-200m"
RANDOM_ALIASES = frozenset({RANDOM_MODEL, "random-qwen3"})
MOST_RANKS, MOST_QUEUED, MOST_BYTES = 65_536, 1_000_000, 10**15

Ranks = Annotated[Count, Field(le=MOST_RANKS)]
Seed = Annotated[Whole, Field(ge=0, lt=2**32)]
"""What NumPy takes, which vLLM seeds too."""


class VllmSettings(Written):
    """Settings of one vLLM engine, each None where nothing is said of it."""

    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    tensor_parallel_size: Ranks | None = None
    pipeline_parallel_size: Ranks | None = None
    data_parallel_size: Ranks | None = None
    max_model_len: Tokens | None = None
    max_num_seqs: Sequences | None = None
    max_num_batched_tokens: Tokens | None = None
    max_num_queued_reqs: Annotated[Count, Field(le=MOST_QUEUED)] | None = None
    gpu_memory_utilization: Annotated[Positive, Field(le=1)] | None = None
    kv_cache_memory_bytes: Annotated[Count, Field(le=MOST_BYTES)] | None = None
    block_size: Tokens | None = None
    enable_prefix_caching: bool | None = None
    enforce_eager: bool | None = None
    seed: Seed | None = None
    extra_args: tuple[str, ...] = ()


class EngineSpec(VllmSettings):
    """What one vLLM engine is asked to be; a setting left out (None) is vLLM's own default.

    `model` is the embedded model's id, a folder in Hugging Face form, or a Hugging Face id; or
    `random-qwen3-200m`, whose heads can be shared out among cards, but whose weights are random: its
    speed is that of a model of its size, its answers are noise. Two equal specs share one engine.
    `extra_args` are passed to vLLM as they are.
    """

    model: str = Field(default=EMBEDDED_MODEL, min_length=1)
    served_model_name: str | None = None
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: Ranks = 1
    pipeline_parallel_size: Ranks = 1
    data_parallel_size: Ranks = 1

    @model_validator(mode="after")
    def _one_name_for_a_model_of_the_book(self) -> Self:
        for name, aliases in ((EMBEDDED_MODEL, EMBEDDED_ALIASES), (RANDOM_MODEL, RANDOM_ALIASES)):
            if self.model.lower() in aliases:
                object.__setattr__(self, "model", name)
        return self

    @property
    def is_embedded(self) -> bool:
        """Whether the model is one that the book brings along."""
        return self.model == EMBEDDED_MODEL or self.is_random

    @property
    def is_random(self) -> bool:
        """Whether its weights are random: good for times, while its answers are noise."""
        return self.model == RANDOM_MODEL

    @property
    def ranks(self) -> int:
        """Worker processes in all: TP x PP x DP."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size

    @property
    def layout(self) -> str:
        """The layout as a stamp shows it, e.g. `TP 2 x DP 4`."""
        sizes = {
            "TP": self.tensor_parallel_size,
            "PP": self.pipeline_parallel_size,
            "DP": self.data_parallel_size,
        }
        return " x ".join(f"{name} {size}" for name, size in sizes.items() if size > 1 or name == "TP")

    def settings(self) -> dict[str, Any]:
        """The settings that differ from vLLM's defaults, for a stamp."""
        return self.model_dump(exclude_defaults=True, exclude={"model", "served_model_name"}, mode="json")
