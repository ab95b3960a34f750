"""The cluster file: a model, the pools that serve it, and the gateway before them."""

from kilocard.specs.cluster.access import AccessLog, Door, Secret, Tenant
from kilocard.specs.cluster.balancer import Balancer, GatewayPlace
from kilocard.specs.cluster.differences import differences, needs_restart
from kilocard.specs.cluster.gateway import Canary, GatewaySpec
from kilocard.specs.cluster.health import Health, Probe, Slow, Weights
from kilocard.specs.cluster.limits import Limits, Retries, Timeouts
from kilocard.specs.cluster.overrides import PREFIX, overridden
from kilocard.specs.cluster.pools import Pool, Replica
from kilocard.specs.cluster.read import cluster_from, read_cluster
from kilocard.specs.cluster.spec import ClusterSpec
from kilocard.specs.cluster.waiting import CLASSES, Classes, Queue, WaitingClass

__all__ = [
    "CLASSES",
    "PREFIX",
    "AccessLog",
    "Balancer",
    "Canary",
    "Classes",
    "ClusterSpec",
    "Door",
    "GatewayPlace",
    "GatewaySpec",
    "Health",
    "Limits",
    "Pool",
    "Probe",
    "Queue",
    "Replica",
    "Retries",
    "Secret",
    "Slow",
    "Tenant",
    "Timeouts",
    "WaitingClass",
    "Weights",
    "cluster_from",
    "differences",
    "needs_restart",
    "overridden",
    "read_cluster",
]
