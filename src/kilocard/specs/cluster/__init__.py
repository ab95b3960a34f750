"""The cluster file: a model, the pools that serve it, and the gateway before them."""

from kilocard.specs.cluster.access import AccessLog, Door, Secret, Tenant
from kilocard.specs.cluster.alerts import Alerts
from kilocard.specs.cluster.balancer import Balancer, GatewayPlace
from kilocard.specs.cluster.deployment import Deployment
from kilocard.specs.cluster.differences import differences, needs_restart
from kilocard.specs.cluster.faults import Fault
from kilocard.specs.cluster.gateway import Canary, GatewaySpec
from kilocard.specs.cluster.health import Health, Probe, Slow, Weights
from kilocard.specs.cluster.lifecycle import CanaryChecks, Lifecycle, Sample
from kilocard.specs.cluster.limits import Limits, Retries, Timeouts
from kilocard.specs.cluster.overrides import PREFIX, overridden
from kilocard.specs.cluster.placement import Placement
from kilocard.specs.cluster.pools import Pool
from kilocard.specs.cluster.read import cluster_from, faults_of, read_cluster
from kilocard.specs.cluster.replica import Discovery, Replica
from kilocard.specs.cluster.scaling import Scaling
from kilocard.specs.cluster.settings import EngineKeys
from kilocard.specs.cluster.spec import ClusterSpec
from kilocard.specs.cluster.waiting import CLASSES, Classes, Queue, WaitingClass
from kilocard.specs.cluster.weights import ModelWeights

__all__ = [
    "CLASSES",
    "PREFIX",
    "AccessLog",
    "Alerts",
    "Balancer",
    "Canary",
    "CanaryChecks",
    "Classes",
    "ClusterSpec",
    "Deployment",
    "Discovery",
    "Door",
    "EngineKeys",
    "Fault",
    "GatewayPlace",
    "GatewaySpec",
    "Health",
    "Lifecycle",
    "Limits",
    "ModelWeights",
    "Placement",
    "Pool",
    "Probe",
    "Queue",
    "Replica",
    "Retries",
    "Sample",
    "Scaling",
    "Secret",
    "Slow",
    "Tenant",
    "Timeouts",
    "WaitingClass",
    "Weights",
    "cluster_from",
    "differences",
    "faults_of",
    "needs_restart",
    "overridden",
    "read_cluster",
]
