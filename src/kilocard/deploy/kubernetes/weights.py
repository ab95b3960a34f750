"""The volume of the weights, and who looks whether they are whole before an engine starts."""

from __future__ import annotations

from math import ceil
from shlex import quote

from kilocard.deploy.kubernetes.names import Object, meta
from kilocard.deploy.kubernetes.pods import container_security
from kilocard.specs.cluster import ClusterSpec, Pool

CLAIM = "weights"
BYTES_PER_GB, BYTES_PER_GIB = 10**9, 2**30


def volume_claim(spec: ClusterSpec) -> str:
    """What the claim is called."""
    return spec.deployment.volume.claim or CLAIM


def claim(spec: ClusterSpec) -> Object | None:
    """A claim that many nodes may read at once; None where the file names one that is there."""
    volume = spec.deployment.volume
    if volume.claim:
        return None
    gib = ceil(volume.size_gb * BYTES_PER_GB / BYTES_PER_GIB)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta(spec, CLAIM, CLAIM),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            **({"storageClassName": volume.storage_class} if volume.storage_class else {}),
            "resources": {"requests": {"storage": f"{gib}Gi"}},
        },
    }


def verifier(spec: ClusterSpec, pool: Pool) -> list[Object]:
    """An init container that reads every file of the weights once and compares its sum; none without sums."""
    weights = spec.weights_of(pool)
    if not weights.checksums or not weights.path:
        return []
    sums = quote(weights.checksums)
    steps = ["set -eu", f"cd {quote(weights.path)}"]
    if weights.sha256:
        steps.append(f"echo {weights.sha256}'  '{sums} | sha256sum --check --status -")
    steps.append(f"sha256sum --check --strict --quiet {sums}")
    return [
        {
            "name": "verify-weights",
            "image": spec.deployment.engine_image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", "\n".join(steps)],
            "resources": {
                "requests": {"cpu": "1", "memory": "256Mi"},
                "limits": {"memory": "2Gi"},
            },
            "securityContext": container_security(),
            "volumeMounts": [
                {"name": "weights", "mountPath": spec.deployment.volume.mount, "readOnly": True}
            ],
        }
    ]
