"""The order of events: one pending plan a replica, in a heap whose keys change in place; and arrivals to
come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled


@compiled
def sift(heap: NDArray[np.int64], place_of: NDArray[np.int64], due_ps: NDArray[np.int64], r: int) -> None:
    """Restore the order of the heap after the time of replica `r` changed; ties go by number."""
    place = place_of[r]
    due = due_ps[r]
    while place > 0:
        parent = (place - 1) // 2
        other = heap[parent]
        if due_ps[other] < due or (due_ps[other] == due and other < r):
            break
        heap[place] = other
        place_of[other] = place
        place = parent
    while True:
        child = 2 * place + 1
        if child >= len(heap):
            break
        if child + 1 < len(heap):
            left = heap[child]
            right = heap[child + 1]
            if due_ps[right] < due_ps[left] or (due_ps[right] == due_ps[left] and right < left):
                child += 1
        other = heap[child]
        if due < due_ps[other] or (due == due_ps[other] and r < other):
            break
        heap[place] = other
        place_of[other] = place
        place = child
    heap[place] = r
    place_of[r] = place
