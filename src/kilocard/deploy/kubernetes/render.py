"""The manifests as files: a base, and overlays for a place to try and for the real one."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from kilocard.deploy.kubernetes import around, engines, gateway, gateway_config, network, scaling, volume
from kilocard.deploy.kubernetes.image import image_files
from kilocard.deploy.kubernetes.names import Object, engines_of, namespace_of
from kilocard.specs.cluster import ClusterSpec, Pool

BASE, OVERLAYS = "base", "overlays"
HEAD = "# Rendered from the cluster file {name}: change that one, not this.\n"


def render(spec: ClusterSpec) -> dict[str, str]:
    """Path → text. `kubectl apply --kustomize OUT/overlays/production` takes them."""
    files = {
        "namespace.yaml": [around.namespace(spec), around.quota_note(spec), *around.priority_classes(spec)],
        "gateway.yaml": [
            gateway.gateways(spec),
            *gateway.services(spec),
            gateway_config.config(spec),
            gateway.disruption_budget(spec),
        ],
        "network.yaml": network.policies(spec),
        "weights.yaml": [its for its in (volume.persistent_volume(spec), volume.claim(spec)) if its],
        **{f"{engines_of(pool)}.yaml": _engines(spec, pool) for pool in spec.pools if pool.count},
    }
    texts = {f"{BASE}/{name}": _documents(spec, objects) for name, objects in files.items() if objects}
    names = [path.removeprefix(f"{BASE}/") for path in texts]
    texts[f"{BASE}/kustomization.yaml"] = _documents(spec, [_kustomization(names)])
    texts |= _overlays(spec) | image_files(spec)
    if howto := around.secret_howto(spec):
        texts["secret.sh"] = howto
    return texts


def _engines(spec: ClusterSpec, pool: Pool) -> list[Object]:
    told = [engines.engines(spec, pool), engines.service(spec, pool), engines.disruption_budget(spec, pool)]
    if scaled := scaling.scaled_object(spec, pool):
        told.append(scaled)
    return told


def _overlays(spec: ClusterSpec) -> dict[str, str]:
    """A place to try: one replica of each pool, one gateway, a namespace of its own. The real one: as is."""
    own = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    pools = [pool for pool in spec.pools if pool.count]
    one = [
        {"op": "replace", "path": "/spec/replicas", "value": 1},
    ]
    patches: list[Object] = [
        {
            "target": {"kind": engines.engines(spec, pool)["kind"], "name": engines_of(pool)},
            "patch": yaml.safe_dump([{"op": "add", "path": "/spec/replicas", "value": 1}], sort_keys=False),
        }
        for pool in pools
    ]
    patches.append(
        {
            "target": {"kind": "StatefulSet", "name": gateway_config.NAME},
            "patch": yaml.safe_dump(one, sort_keys=False),
        }
    )
    patches += [
        {
            "target": {"kind": "ScaledObject", "name": engines_of(pool)},
            "patch": yaml.safe_dump(
                [
                    {"op": "replace", "path": "/spec/minReplicaCount", "value": 1},
                    {"op": "replace", "path": "/spec/maxReplicaCount", "value": 1},
                    {"op": "replace", "path": "/spec/fallback/replicas", "value": 1},
                ],
                sort_keys=False,
            ),
        }
        for pool in pools
        if pool.scaling
    ]
    patches += [
        {
            "patch": yaml.safe_dump(
                {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": name, "namespace": namespace_of(spec)},
                    "$patch": "delete",
                },
                sort_keys=False,
            )
        }
        for name in (gateway_config.NAME, *map(engines_of, pools))
    ]
    if volume.has_source(spec):
        patches.append(_volume_of_its_own(spec))
    dev = {
        **own,
        "namespace": f"{namespace_of(spec)}-dev",
        "resources": ["../../base"],
        "patches": patches,
    }
    production = {**own, "namespace": namespace_of(spec), "resources": ["../../base"]}
    return {
        f"{OVERLAYS}/dev/kustomization.yaml": _documents(spec, [dev]),
        f"{OVERLAYS}/production/kustomization.yaml": _documents(spec, [production]),
    }


def _volume_of_its_own(spec: ClusterSpec) -> Object:
    """A volume is one claim's: the place to try has another one of the same source."""
    name = volume.volume_name(spec)
    changes = [
        {"op": "replace", "path": "/metadata/name", "value": f"{name}-dev"},
        {"op": "replace", "path": "/spec/claimRef/namespace", "value": f"{namespace_of(spec)}-dev"},
    ]
    return {
        "target": {"kind": "PersistentVolume", "name": name},
        "options": {"allowNameChange": True},
        "patch": yaml.safe_dump(changes, sort_keys=False),
    }


def _kustomization(names: list[str]) -> Object:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(names),
    }


def _documents(spec: ClusterSpec, objects: Iterable[Object]) -> str:
    head = HEAD.format(name=spec.name)
    return head + "---\n".join(yaml.safe_dump(its, sort_keys=False, width=110) for its in objects)
