"""An engine's pod: on which nodes, beside whom, with which volumes, and how long it may take to end."""

from __future__ import annotations

from math import ceil

from kilocard.deploy.kubernetes.engine_container import GONE_S, engine_container
from kilocard.deploy.kubernetes.names import Object, labels, priority_class, selector
from kilocard.deploy.kubernetes.pods import pod_security
from kilocard.deploy.kubernetes.volume import volume_claim
from kilocard.deploy.kubernetes.weights import is_on_the_volume, verifier
from kilocard.errors import KilocardError
from kilocard.specs.cluster import ClusterSpec, Pool
from kilocard.specs.cluster.placement import HOST
from kilocard.specs.cluster.pools import LENDING

PRODUCTS = {
    "a100-sxm-80gb": "NVIDIA-A100-SXM4-80GB",
    "h100-sxm": "NVIDIA-H100-80GB-HBM3",
    "h100-pcie": "NVIDIA-H100-PCIe",
    "h200-sxm": "NVIDIA-H200",
    "b200-sxm": "NVIDIA-B200",
    "l40s": "NVIDIA-L40S",
    "l4": "NVIDIA-L4",
}
"""A card's name as nvidia-smi tells it, dashes for spaces: so NVIDIA's feature discovery labels nodes."""
RANK, GROUP = "kilocard.dev/rank", "leaderworkerset.sigs.k8s.io/group-index"
"""What a pod is in its group, and the label that says which of the groups it is in."""


def engine_pod(spec: ClusterSpec, pool: Pool, name: str, role: str = "") -> Object:
    """The template of an engine's pods, or of a group's leader or worker."""
    own = spec.deployment
    rank = {RANK: role} if role else {}
    return {
        "metadata": {"labels": {**labels(spec, name, pool.version), **rank}},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "priorityClassName": priority_class(spec, "offline" if pool.role in LENDING else "online"),
            "terminationGracePeriodSeconds": grace_s(spec),
            **({"runtimeClassName": own.runtime_class} if own.runtime_class else {}),
            "securityContext": pod_security(),
            "nodeSelector": {spec.placement.card: card_value(spec, pool)},
            "tolerations": [{"key": key, "operator": "Exists"} for key in own.tolerations],
            **_placed(spec, name, role),
            "initContainers": verifier(spec, pool),
            "containers": [engine_container(spec, pool, role)],
            "volumes": _volumes(spec, pool),
        },
    }


def grace_s(spec: ClusterSpec) -> int:
    """More than the sleep, the drain and the end together: who is killed before loses what it holds."""
    its = spec.lifecycle
    return GONE_S + ceil(its.drain_s) + ceil(its.stop_s) + 10


def card_value(spec: ClusterSpec, pool: Pool) -> str:
    """What the nodes' label says of a pool's card."""
    told = spec.placement.card_values.get(pool.card or "") or PRODUCTS.get(pool.card or "")
    if told is None:
        raise KilocardError(
            f"pool {pool.name}: what a node's label {spec.placement.card} says of {pool.card} is not known: "
            f"placement: {{card_values: {{{pool.card}: VALUE}}}}, as `kubectl get nodes --show-labels` has it"
        )
    return told


def _placed(spec: ClusterSpec, name: str, role: str) -> Object:
    """Replicas apart; the nodes of one replica together.

    An engine on one node has its cards behind one switch or none, so `together` asks nothing of it. A group's
    leader is placed like such an engine, apart from other leaders, and its workers follow it: were workers
    spread, too, they would be sent away from their own leader. Groups may share a switch. What
    LeaderWorkerSet calls exclusive-topology would give each group one of its own and leave the rest of it
    empty. Nothing reserves room for the workers: where the leader's switch has none, they wait.
    """
    together = spec.placement.together
    if role == "worker":
        return {"affinity": _with_its_leader(name, together)} if together else {}
    chosen = selector(name) | ({RANK: role} if role else {})
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway" if key == HOST else "DoNotSchedule",
                "labelSelector": {"matchLabels": chosen},
            }
            for key in spec.placement.apart
        ]
    }


def _with_its_leader(name: str, together: str) -> Object:
    """The leader of the same group: Kubernetes puts the pod's own group into the selector (from 1.31 on)."""
    leader = {
        "topologyKey": together,
        "labelSelector": {"matchLabels": {**selector(name), RANK: "leader"}},
        "matchLabelKeys": [GROUP],
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [leader]}}


def _volumes(spec: ClusterSpec, pool: Pool) -> list[Object]:
    shm = {"medium": "Memory", "sizeLimit": f"{spec.deployment.shm_gib:g}Gi"}
    return [
        {
            "name": "weights",
            "persistentVolumeClaim": {
                "claimName": volume_claim(spec),
                **({"readOnly": True} if is_on_the_volume(spec, pool) else {}),
            },
        },
        {"name": "cache", "emptyDir": {"sizeLimit": "20Gi"}},
        {"name": "temporary", "emptyDir": {"sizeLimit": "5Gi"}},
        *([{"name": "shm", "emptyDir": shm}] if spec.cards_of(pool) > 1 else []),
    ]
