"""What is asked of an engine: when requests arrive, how long they are, and what their prompts share."""

from kilocard.workload.arrivals import Arrivals, Process
from kilocard.workload.lengths import Empirical, Fixed, HeavyTail, Lengths, Listed, LogNormal
from kilocard.workload.limits import MOST_REQUESTS, MOST_TOKENS
from kilocard.workload.request import FIRST_TOKEN_ID, Request
from kilocard.workload.stage import SharedPrefix, Workload

__all__ = [
    "FIRST_TOKEN_ID",
    "MOST_REQUESTS",
    "MOST_TOKENS",
    "Arrivals",
    "Empirical",
    "Fixed",
    "HeavyTail",
    "Lengths",
    "Listed",
    "LogNormal",
    "Process",
    "Request",
    "SharedPrefix",
    "Workload",
]
