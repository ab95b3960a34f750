"""Load: streamed requests that are stamped before they are parsed, in closed and open loop."""

from kilocard.load.client import Timeouts
from kilocard.load.sweep import Streamed, replay, send_one, sweep
from kilocard.load.target import Target

__all__ = ["Streamed", "Target", "Timeouts", "replay", "send_one", "sweep"]
