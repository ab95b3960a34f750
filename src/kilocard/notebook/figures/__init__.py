"""The book's figures, one noun a file; the same thing is drawn the same way everywhere."""

from kilocard.notebook.figures.copies import copies_figure, lives_figure
from kilocard.notebook.figures.curves import Curve, curves_figure
from kilocard.notebook.figures.engine_load import engine_load_figure
from kilocard.notebook.figures.errors import Errors, errors_figure
from kilocard.notebook.figures.falls import falls_figure
from kilocard.notebook.figures.fleet import pile_up_figure
from kilocard.notebook.figures.layouts import (
    choice_table,
    layout_frame,
    layouts_figure,
    layouts_slider,
)
from kilocard.notebook.figures.leaderboard import leaderboard_figure, luck_figure, outside_percent
from kilocard.notebook.figures.leads import leads_figure
from kilocard.notebook.figures.ledger import ledger_figure, ledger_see_saw
from kilocard.notebook.figures.pairs import error_percent, pairs_figure
from kilocard.notebook.figures.policies import policies_figure
from kilocard.notebook.figures.requests import life_of_requests, spread_figure, stream_figure
from kilocard.notebook.figures.rollout import rollout_figure
from kilocard.notebook.figures.roofline import Roof, Work, roofline_figure
from kilocard.notebook.figures.shares import share_figure
from kilocard.notebook.figures.strips import kv_strips_figure
from kilocard.notebook.figures.sweep import Sweep, sweep_figure
from kilocard.notebook.figures.tables import table
from kilocard.notebook.figures.tiers import tiers_figure
from kilocard.notebook.figures.timeline import timeline_figure
from kilocard.notebook.figures.topology import topology_figure
from kilocard.notebook.figures.waits import waits_figure
from kilocard.notebook.figures.watch import watch_figure
from kilocard.notebook.figures.waterfall import waterfall_figure

__all__ = [
    "Curve",
    "Errors",
    "Roof",
    "Sweep",
    "Work",
    "choice_table",
    "copies_figure",
    "curves_figure",
    "engine_load_figure",
    "error_percent",
    "errors_figure",
    "falls_figure",
    "kv_strips_figure",
    "layout_frame",
    "layouts_figure",
    "layouts_slider",
    "leaderboard_figure",
    "leads_figure",
    "ledger_figure",
    "ledger_see_saw",
    "life_of_requests",
    "lives_figure",
    "luck_figure",
    "outside_percent",
    "pairs_figure",
    "pile_up_figure",
    "policies_figure",
    "rollout_figure",
    "roofline_figure",
    "share_figure",
    "spread_figure",
    "stream_figure",
    "sweep_figure",
    "table",
    "tiers_figure",
    "timeline_figure",
    "topology_figure",
    "waits_figure",
    "watch_figure",
    "waterfall_figure",
]  # fmt: skip
