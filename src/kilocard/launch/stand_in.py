"""An emulated engine in the place of the book's, where no vLLM can be installed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import kilocard
from kilocard.errors import KilocardError
from kilocard.facts import Card, KvDtype, card, model
from kilocard.launch.command import CPU_KV_CACHE_BYTES, served_name
from kilocard.specs.case import Case, read_case
from kilocard.specs.engine import EngineSpec

RECORDED = Path(kilocard.__file__).resolve().parents[2] / "data" / "stand-in.yaml"
"""The box that is played: calibrated on the book's own sweep."""

SAME = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size", "enable_prefix_caching")


class StandIn:
    """This process's hold on an emulated engine, which ends with it."""

    joined = False
    log: Path | None = None

    def __init__(self, spec: EngineSpec, port: int) -> None:
        # The emulator brings pandas and numba along, which nobody needs who starts a real engine.
        from kilocard.emulator import emulated

        self.case = stand_in_case(spec)
        self._stack = ExitStack()
        self._engine = self._stack.enter_context(
            emulated(self.case, port=port, served_model_name=served_name(spec))
        )

    @property
    def url(self) -> str:
        """Where the engine answers."""
        return self._engine.url

    @property
    def pid(self) -> int:
        """Its process."""
        return self._engine.process.pid

    def exit_code(self) -> int | None:
        """Its process's exit code once that has died, else null."""
        return self._engine.process.poll()

    def leave(self) -> None:
        """End it."""
        self._stack.close()


def recorded_box() -> Card:
    """The box that is played, as a card."""
    return card(read_case(RECORDED).card)


def stand_in_case(spec: EngineSpec) -> Case:
    """The recorded box with the settings that the spec names; vLLM keeps one block for itself."""
    if spec.ranks > 1:
        raise KilocardError(f"one card is emulated, not {spec.layout}: use one rank, or install vLLM")
    case = read_case(RECORDED)
    known = model(spec.model)
    settings: dict[str, Any] = {name: value for name in SAME if (value := getattr(spec, name)) is not None}
    block_tokens = settings.get("block_size", case.engine.block_size)
    block_bytes = block_tokens * known.kv_bytes_per_token(KvDtype.BF16)
    settings["kv_blocks"] = (spec.kv_cache_memory_bytes or CPU_KV_CACHE_BYTES) // block_bytes - 1
    return read_case(RECORDED, {"model": spec.model, "engine": settings})
