"""The engine model in real time behind the OpenAI API: what it answers is emulated, and says so."""

from kilocard.emulator.emulator import Emulator
from kilocard.emulator.faults import Faults
from kilocard.emulator.process import Emulated, emulated

__all__ = ["Emulated", "Emulator", "Faults", "emulated"]
