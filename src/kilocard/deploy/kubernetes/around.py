"""What stands around engines and gateways: the namespace, the priorities, the names of the secrets."""

from __future__ import annotations

from kilocard.deploy.kubernetes.engine_container import secret_key
from kilocard.deploy.kubernetes.names import Object, labels, meta, namespace_of, priority_class
from kilocard.deploy.kubernetes.pods import SECRETS
from kilocard.specs.cluster import ClusterSpec, Secret

ONLINE, OFFLINE = 100_000, 10_000


def namespace(spec: ClusterSpec) -> Object:
    """In which no pod may be more than it must."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": namespace_of(spec),
            "labels": {
                **labels(spec, "namespace"),
                "pod-security.kubernetes.io/enforce": "restricted",
                "pod-security.kubernetes.io/enforce-version": "latest",
            },
        },
    }


def priority_classes(spec: ClusterSpec) -> list[Object]:
    """Where cards are short, offline pools make room for online ones."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": priority_class(spec, name), "labels": labels(spec, "priority")},
            "value": value,
            "globalDefault": False,
            "preemptionPolicy": "PreemptLowerPriority" if name == "online" else "Never",
            "description": told,
        }
        for name, value, told in (
            ("online", ONLINE, "Gateways, and engines that somebody waits for."),
            ("offline", OFFLINE, "Engines of batches and buffers: they make room."),
        )
    ]


def secret_names(spec: ClusterSpec) -> dict[str, str]:
    """The keys of the Secret that has to be there, and what each is. Its values are nowhere in the files."""
    told = {}
    if spec.gateway.keys:
        told["keys"] = "the clients' keys as hashes, a line each, by `kilocard gateway-key`"
    if spec.gateway.engine_key:
        told["engine-key"] = "what engines ask of the gateways"
    for pool in spec.pools:
        for name, value in pool.engine.over(spec.engine).environment.items():
            if isinstance(value, Secret):
                told[secret_key(name)] = f"{name} of the engines"
    return told


def secret_howto(spec: ClusterSpec) -> str:
    """The command that makes the Secret, with files in place of values; "" where none is needed."""
    if not (names := secret_names(spec)):
        return ""
    files = " \\\n".join(f"  --from-file={name}=./{name}" for name in names)
    about = "\n".join(f"#   {name}: {what}" for name, what in names.items())
    return (
        f"# The Secret {SECRETS} is made by you, once, from files that are not kept with these:\n{about}\n"
        f"kubectl --namespace {namespace_of(spec)} create secret generic {SECRETS} \\\n{files}\n"
    )


def quota_note(spec: ClusterSpec) -> Object:
    """How many cards the namespace may use: what the file asks for, and no more."""
    cards = sum(
        (pool.scaling.most if pool.scaling else pool.count or 0) * spec.cards_of(pool) for pool in spec.pools
    )
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta(spec, "cards", "quota"),
        "spec": {"hard": {f"requests.{spec.deployment.card_resource}": str(cards)}},
    }
