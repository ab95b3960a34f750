"""The wire between two machines: measured over TCP, and what it means for engines and their time-outs."""

from kilocard.network.client import measure_network
from kilocard.network.fit import fit_messages
from kilocard.network.meaning import Meaning, Step, meaning_of
from kilocard.network.result import NetworkResult, Rate, Trip
from kilocard.network.server import Listener
from kilocard.network.timeouts import DEFAULT_TIMEOUTS, collective_timeout_s

__all__ = [
    "DEFAULT_TIMEOUTS",
    "Listener",
    "Meaning",
    "NetworkResult",
    "Rate",
    "Step",
    "Trip",
    "collective_timeout_s",
    "fit_messages",
    "meaning_of",
    "measure_network",
]
