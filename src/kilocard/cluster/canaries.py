"""What the engines of a canary and the others have served, as a judgement goes by it."""

from __future__ import annotations

import numpy as np

from kilocard.cluster.books import OK, REFUSED
from kilocard.cluster.hands import Hands
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.lifecycle import Served

MOST_ARRIVALS, MOST_TIMES = 200_000, 5000
"""Of the latest: a judgement does not look back for ever."""


def served_by(hands: Hands, engines: list[int], since_ps: int, now_ps: int) -> Served:
    """Of the requests that ended at some engines since then."""
    requests, books = hands.engines.tables.requests, hands.ground.books
    upto = int(hands.agenda.counts[0])
    order = hands.agenda.arrivals[max(0, upto - MOST_ARRIVALS) : upto]
    mine = order[np.isin(requests.replica[order], engines) & (requests.last_ps[order] >= since_ps)]
    ended = mine[(books.status[mine] == OK) & (requests.last_ps[mine] <= now_ps)]
    failed = int((books.status[mine] > REFUSED).sum())
    ttft = (requests.first_ps[ended] - books.sent_ps[ended]) / PICOSECONDS
    many = requests.output[ended] > 1
    tpot = (requests.last_ps[ended] - requests.first_ps[ended])[many] / (requests.output[ended][many] - 1)
    return Served(
        len(ended) + failed,
        failed,
        tuple(ttft[-MOST_TIMES:].tolist()),
        tuple((tpot / PICOSECONDS)[-MOST_TIMES:].tolist()),
    )
