"""Runs of real engines that others published, as observations; read where `KILOCARD_PUBLISHED_DATA` names
their folder."""

from __future__ import annotations

import os
from pathlib import Path

from kilocard.fleet.published.batches import batch_rows
from kilocard.fleet.published.rates import fitted_part, rate_table
from kilocard.fleet.published.requests import request_run

VARIABLE = "KILOCARD_PUBLISHED_DATA"

__all__ = ["VARIABLE", "batch_rows", "fitted_part", "published_folder", "rate_table", "request_run"]


def published_folder() -> Path | None:
    """The folder of published tables, where there is one."""
    named = os.environ.get(VARIABLE)
    folder = Path(named) / "published" if named else None
    return folder if folder and folder.is_dir() else None
