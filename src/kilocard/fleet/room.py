"""This machine's memory, asked before a simulation's tables are made."""

from __future__ import annotations

import psutil

from kilocard.engine_model.state import SLOT
from kilocard.errors import KilocardError
from kilocard.specs.demand import Demand

REQUEST_BYTES = 600
"""Of a request: drawn, simulated, and as a row of the run; measured."""


def require_room_for_requests(demand: Demand) -> None:
    """Refuse more requests than the free memory holds."""
    expected = sum(stage.expected_requests for stage in demand.all_stages)
    count = expected * demand.conversation.count
    _require(count * REQUEST_BYTES, f"{count:,.10g} requests", "ask for fewer, or use a larger machine")


def require_room_for_slots(replicas: int, max_num_seqs: int) -> None:
    """Refuse more running sequences than the free memory holds."""
    what = f"{replicas:,} engines of max_num_seqs {max_num_seqs:,}"
    _require(replicas * max_num_seqs * SLOT.itemsize, what, "lower one of them, or use a larger machine")


def _require(needed_bytes: float, what: str, way_out: str) -> None:
    free_bytes = psutil.virtual_memory().available
    if needed_bytes > free_bytes:
        raise KilocardError(
            f"{what} take {needed_bytes / 2**30:,.4g} GiB of memory, and {free_bytes / 2**30:,.4g} GiB are "
            f"free here: {way_out}"
        )
