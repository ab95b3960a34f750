"""Collectives measured between processes of this very box: allreduce, a send, all-to-all."""

from kilocard.collectives.measured import Measured, SizeTime
from kilocard.collectives.measuring import measure
from kilocard.collectives.work import SIZES_BYTES, Operation

__all__ = ["SIZES_BYTES", "Measured", "Operation", "SizeTime", "measure"]
