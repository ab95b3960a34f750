"""The volume of the weights: its claim, and where the file names its source the volume itself."""

from __future__ import annotations

from math import ceil

from kilocard.deploy.kubernetes.names import Object, label, labels, meta, namespace_of
from kilocard.deploy.kubernetes.weights import is_on_the_volume
from kilocard.specs.cluster import ClusterSpec

CLAIM = "weights"
BYTES_PER_GB, BYTES_PER_GIB = 10**9, 2**30


def volume_claim(spec: ClusterSpec) -> str:
    """What the claim is called."""
    return spec.deployment.volume.claim or CLAIM


def volume_name(spec: ClusterSpec) -> str:
    """A volume is the whole cluster's, so the name of the file stands in it."""
    return f"{label(spec.name, 50)}-weights"


def claim(spec: ClusterSpec) -> Object | None:
    """A claim that many nodes may read at once; None where the file names one that is there."""
    volume = spec.deployment.volume
    if volume.claim:
        return None
    if has_source(spec):
        bound = {"storageClassName": "", "volumeName": volume_name(spec)}
    else:
        bound = {"storageClassName": volume.storage_class} if volume.storage_class else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta(spec, CLAIM, CLAIM),
        "spec": {
            "accessModes": [_mode(spec)],
            **bound,
            "resources": {"requests": {"storage": _size(spec)}},
        },
    }


def persistent_volume(spec: ClusterSpec) -> Object | None:
    """What the claim is bound to, kept for it alone and kept when it goes; None without a source."""
    if not has_source(spec):
        return None
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(spec), "labels": labels(spec, CLAIM)},
        "spec": {
            "capacity": {"storage": _size(spec)},
            "accessModes": [_mode(spec)],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {"namespace": namespace_of(spec), "name": CLAIM},
            **_source(spec),
        },
    }


def has_source(spec: ClusterSpec) -> bool:
    """Whether the file says on what the volume lies."""
    return bool(spec.deployment.volume.nfs or spec.deployment.volume.csi)


def _source(spec: ClusterSpec) -> Object:
    volume = spec.deployment.volume
    read_only = {"readOnly": True} if _mode(spec) == "ReadOnlyMany" else {}
    if volume.nfs:
        return {"nfs": {"server": volume.nfs.server, "path": volume.nfs.path, **read_only}}
    assert volume.csi is not None
    attributes = {"volumeAttributes": dict(volume.csi.attributes)} if volume.csi.attributes else {}
    return {
        "csi": {
            "driver": volume.csi.driver,
            "volumeHandle": volume.csi.handle,
            **read_only,
            **attributes,
        }
    }


def _mode(spec: ClusterSpec) -> str:
    """A source that holds every pool's weights is only read; an empty volume and a hub's cache are filled."""
    own = [pool for pool in spec.pools if pool.count]
    is_full = has_source(spec) and all(is_on_the_volume(spec, pool) for pool in own)
    return "ReadOnlyMany" if is_full else "ReadWriteMany"


def _size(spec: ClusterSpec) -> str:
    return f"{ceil(spec.deployment.volume.size_gb * BYTES_PER_GB / BYTES_PER_GIB)}Gi"
