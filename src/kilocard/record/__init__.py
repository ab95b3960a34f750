"""The request table: every run, however made, is one `Run` that statistics and figures read."""

from kilocard.record.run import Run
from kilocard.record.stamp import Kind, Stamp, stamp_from
from kilocard.record.table import REQUEST_COLUMNS, SAMPLE_COLUMNS, Status, typed

__all__ = ["REQUEST_COLUMNS", "SAMPLE_COLUMNS", "Kind", "Run", "Stamp", "Status", "stamp_from", "typed"]
