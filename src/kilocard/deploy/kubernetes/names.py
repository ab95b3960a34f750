"""What Kubernetes' objects are called, and the labels by which they find each other."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from kilocard.specs.cluster import ClusterSpec, Pool

LONGEST_LABEL = 63
SUFFIX_HEX = 6
APP = "kilocard"
Object = dict[str, Any]


def label(text: str, longest: int = LONGEST_LABEL) -> str:
    """A name as a DNS label: what does not fit is cut, and told apart by its hash."""
    plain = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-") or "x"
    if plain == text and len(plain) <= longest:
        return plain
    digest = hashlib.sha256(text.encode()).hexdigest()[:SUFFIX_HEX]
    return f"{plain[: longest - SUFFIX_HEX - 1].rstrip('-')}-{digest}"


def namespace_of(spec: ClusterSpec) -> str:
    """Where everything is put."""
    return spec.deployment.namespace or label(spec.name)


def engines_of(pool: Pool) -> str:
    """A pool's engines: short enough for what Kubernetes appends."""
    return f"engine-{label(pool.name, 40)}"


def priority_class(spec: ClusterSpec, kind: str) -> str:
    """Of `online` or `offline` pods: the whole cluster has these names, so this one's stands in them."""
    return f"{label(spec.name, 50)}-{kind}"


def selector(part: str) -> dict[str, str]:
    """Labels that never change, by which pods are chosen."""
    return {"app.kubernetes.io/name": APP, "app.kubernetes.io/component": part}


def labels(spec: ClusterSpec, part: str, version: str | None = None) -> dict[str, str]:
    """Those, and what helps a person."""
    told = {**selector(part), "app.kubernetes.io/instance": label(spec.name)}
    return {**told, "kilocard.dev/model-version": label(version)} if version else told


def meta(spec: ClusterSpec, name: str, part: str, **more: Any) -> Object:
    """An object's metadata."""
    return {"name": name, "namespace": namespace_of(spec), "labels": labels(spec, part), **more}
