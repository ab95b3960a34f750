"""The weights as engines are given them, and who looks whether they are whole before an engine starts."""

from __future__ import annotations

from shlex import quote

from kilocard import facts
from kilocard.deploy.kubernetes.names import Object
from kilocard.deploy.kubernetes.pods import container_security
from kilocard.errors import KilocardError
from kilocard.specs.cluster import ClusterSpec, Pool


def model_of(spec: ClusterSpec, pool: Pool) -> str:
    """What vLLM is given: a folder, or the hub's id of a model that the catalogue knows by another name."""
    model = spec.engine_of(pool).model
    if model.startswith("/") or "/" in model:
        return model
    known = facts.models().get(model)
    if known is None or not known.huggingface_id:
        raise KilocardError(
            f"pool {pool.name}: {model} is no folder and no id of a hub: name its weights, "
            f"weights: {{path: /models/{model}}}"
        )
    return known.huggingface_id


def is_on_the_volume(spec: ClusterSpec, pool: Pool) -> bool:
    """Whether the weights lie there already; else the volume is the hub's cache, filled once."""
    return model_of(spec, pool).startswith("/")


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
