"""Mistakes about the volume that weights lie on."""

from __future__ import annotations

from kilocard.deploy.lint.manifests import at, rows
from kilocard.deploy.lint.world import Found, World


def one_node_has_the_volume(world: World) -> Found:
    """ReadWriteOnce is mounted by one node at a time."""
    claims = {(it.namespace, it.name): it for it in world.of_kind("PersistentVolumeClaim")}
    for owner in world.objects:
        if owner.replicas < 2 and owner.kind != "DaemonSet":
            continue
        for template in owner.templates:
            for volume in rows(at(template, "spec", "volumes")):
                name = str(at(volume, "persistentVolumeClaim", "claimName") or "")
                claim = claims.get((owner.namespace, name)) or claims.get(("", name))
                modes = at(claim.content, "spec", "accessModes") if claim else None
                if modes in (["ReadWriteOnce"], ["ReadWriteOncePod"]):
                    yield (
                        owner,
                        (
                            "fault",
                            f"its {owner.replicas} replicas share the claim {name}, which is {modes[0]}: "
                            "those on "
                            "another node wait for ever; ReadOnlyMany or ReadWriteMany",
                        ),
                    )


def weights_are_of_the_node(world: World) -> Found:
    """A hostPath is another folder on each node, and nobody looks whether it is whole."""
    for engine in world.engines:
        for path, name in engine.mounts.items():
            model = engine.flag("--model") or ""
            if "hostPath" in engine.volumes.get(name, {}) and model.startswith(path):
                yield (
                    engine.owner,
                    (
                        "risk",
                        "its weights come from each node's own "
                        f"{at(engine.volumes[name], 'hostPath', 'path')}: "
                        "one node may lack them, or have others; a versioned volume, verified before the "
                        "start",
                    ),
                )


RULES = {
    "one-node-volume": one_node_has_the_volume,
    "weights-of-the-node": weights_are_of_the_node,
}
