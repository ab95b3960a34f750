"""The book's figures, one noun a file; the same thing is drawn the same way everywhere."""

from kilocard.notebook.figures.curves import Curve, curves_figure
from kilocard.notebook.figures.engine_load import engine_load_figure
from kilocard.notebook.figures.ledger import ledger_figure, ledger_see_saw
from kilocard.notebook.figures.requests import life_of_requests, spread_figure, stream_figure
from kilocard.notebook.figures.roofline import Roof, Work, roofline_figure
from kilocard.notebook.figures.sweep import Sweep, sweep_figure
from kilocard.notebook.figures.tables import table

__all__ = [
    "Curve", "Roof", "Sweep", "Work", "curves_figure", "engine_load_figure", "ledger_figure",
    "ledger_see_saw", "life_of_requests", "roofline_figure", "spread_figure", "stream_figure", "sweep_figure",
    "table",
]  # fmt: skip
