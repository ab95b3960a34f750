"""What it costs to cut a model over several cards: collectives, pipelines, experts, and the layouts."""

from kilocard.parallel.collective import (
    Wire,
    all_to_all_s,
    allreduce_s,
    message_s,
    one_shot_s,
    ring_s,
    two_shot_s,
)
from kilocard.parallel.experts import busiest_share, experts_touched
from kilocard.parallel.fabric import Fabric, fabric
from kilocard.parallel.fitted import Fitted, fit_two_rates, fit_wire
from kilocard.parallel.layout import Layout
from kilocard.parallel.pipeline import bubble_share, idle_share

__all__ = [
    "Fabric", "Fitted", "Layout", "Wire", "all_to_all_s", "allreduce_s", "bubble_share", "busiest_share",
    "experts_touched", "fabric", "fit_two_rates", "fit_wire", "idle_share", "message_s", "one_shot_s",
    "ring_s", "two_shot_s",
]  # fmt: skip
