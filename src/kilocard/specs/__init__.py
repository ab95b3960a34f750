"""What a user writes down: checked when read, with errors that name the way out."""

from kilocard.specs.case import Case, EngineSettings, case_from, read_case
from kilocard.specs.cluster import ClusterSpec, cluster_from, read_cluster
from kilocard.specs.demand import Demand, Stage
from kilocard.specs.engine import EngineSpec
from kilocard.specs.slo import SLO

__all__ = [
    "SLO",
    "Case",
    "ClusterSpec",
    "Demand",
    "EngineSettings",
    "EngineSpec",
    "Stage",
    "case_from",
    "cluster_from",
    "read_case",
    "read_cluster",
]
