"""How a model is laid over cards: cut by tensors, by layers, and copied."""

from __future__ import annotations

from dataclasses import dataclass

from kilocard.errors import KilocardError
from kilocard.specs.interconnect import CARDS_PER_NODE


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """Degrees as vLLM names them; a replica is `tensor_parallel` × `pipeline_parallel` cards."""

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False

    def __post_init__(self) -> None:
        for degree in (self.tensor_parallel, self.pipeline_parallel, self.data_parallel):
            if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
                raise KilocardError(
                    f"TP {self.tensor_parallel}, PP {self.pipeline_parallel}, DP {self.data_parallel}: "
                    "degrees are whole numbers from 1"
                )

    def __str__(self) -> str:
        sizes = {"TP": self.tensor_parallel, "PP": self.pipeline_parallel, "DP": self.data_parallel}
        named = " × ".join(f"{name} {size}" for name, size in sizes.items() if size > 1 or name == "TP")
        return f"{named} with expert parallel" if self.expert_parallel else named

    @property
    def cards_per_replica(self) -> int:
        """Cards that hold the model once."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def cards(self) -> int:
        """Cards in all."""
        return self.cards_per_replica * self.data_parallel

    def machines_per_replica(self, cards_per_node: int = CARDS_PER_NODE) -> int:
        """Machines that one replica takes, whole or in part."""
        return -(-self.cards_per_replica // cards_per_node)

    def machines(self, cards_per_node: int = CARDS_PER_NODE) -> int:
        """Machines in all; no replica that fits into one straddles two."""
        if self.cards_per_replica > cards_per_node:
            return self.data_parallel * self.machines_per_replica(cards_per_node)
        return -(-self.data_parallel // (cards_per_node // self.cards_per_replica))

    def cuts_across_machines(self, cards_per_node: int = CARDS_PER_NODE) -> bool:
        """Whether one tensor-parallel group spans machines: every layer's allreduce goes over the network."""
        return self.tensor_parallel > cards_per_node

    def flags(self) -> list[str]:
        """vLLM's flags for one engine of it; copies of a dense model are engines of their own."""
        flags = ["--tensor-parallel-size", str(self.tensor_parallel)]
        if self.pipeline_parallel > 1:
            flags += ["--pipeline-parallel-size", str(self.pipeline_parallel)]
        return [*flags, "--enable-expert-parallel"] if self.expert_parallel else flags
