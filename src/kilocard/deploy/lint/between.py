"""Mistakes between objects: who is chosen, who is reached, what is shared, what happens in a roll-out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kilocard.deploy.lint.manifests import Object, at, mapping, rows
from kilocard.deploy.lint.world import Told, World, chooses

Found = Iterator[tuple[Object, Told]]
ROLLED = ("Deployment", "StatefulSet", "LeaderWorkerSet")


def a_surge_needs_cards_that_are_not_there(world: World) -> Found:
    """A Deployment starts 25 % more before it ends one: on a full cluster they wait for ever."""
    for owner in world.of_kind("Deployment"):
        surge = at(owner.spec, "strategy", "rollingUpdate", "maxSurge")
        is_recreated = at(owner.spec, "strategy", "type") == "Recreate"
        if world.serves(owner) and not is_recreated and str(surge) not in ("0", "0%"):
            said = "25% unless it says otherwise" if surge is None else surge
            yield (
                owner,
                (
                    "fault",
                    f"maxSurge is {said}: a roll-out first wants more cards than the pool has, and waits for "
                    "ever on a full cluster; maxSurge: 0 and a maxUnavailable",
                ),
            )


def everything_is_recreated_at_once(world: World) -> Found:
    """Recreate ends all replicas before it starts one."""
    for owner in world.of_kind("Deployment"):
        if at(owner.spec, "strategy", "type") == "Recreate" and owner.replicas > 1 and world.serves(owner):
            yield (
                owner,
                (
                    "fault",
                    "strategy Recreate ends every replica before it starts one: RollingUpdate, a quarter",
                ),
            )


def a_selector_does_not_choose_its_own(world: World) -> Found:
    """The API refuses it."""
    for owner in world.of_kind("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"):
        wanted = mapping(at(owner.spec, "selector", "matchLabels"))
        for template in owner.templates:
            labels = mapping(at(template, "metadata", "labels"))
            if not at(owner.spec, "selector"):
                yield owner, ("fault", "it has no selector: apps/v1 takes none without; add matchLabels")
            elif not chooses(wanted, labels):
                yield (
                    owner,
                    ("fault", f"its selector {_shown(wanted)} does not choose its pods {_shown(labels)}"),
                )


def a_service_chooses_nobody(world: World) -> Found:
    """It has an address, and nobody answers."""
    for service in world.of_kind("Service"):
        wanted = mapping(service.spec.get("selector"))
        if wanted and not world.selected(wanted, service.namespace):
            yield (
                service,
                ("fault", f"its selector {_shown(wanted)} chooses no pod of these files: a label differs"),
            )


def a_service_speaks_to_a_closed_port(world: World) -> Found:
    """targetPort must be a port of the pod's, by its number or its name."""
    for service in world.of_kind("Service"):
        for owner, template in world.selected(mapping(service.spec.get("selector")), service.namespace):
            ports = [
                port for it in rows(at(template, "spec", "containers")) for port in rows(it.get("ports"))
            ]
            known = {str(port.get("containerPort")) for port in ports} | {
                str(port.get("name")) for port in ports
            }
            known |= _flag_ports(world, owner)
            for port in rows(service.spec.get("ports")):
                target = str(port.get("targetPort", port.get("port")))
                if known and target not in known:
                    yield (
                        service,
                        (
                            "fault",
                            f"it sends to port {target} of {owner}, which listens on "
                            f"{', '.join(sorted(known))}",
                        ),
                    )


def connections_are_balanced_not_requests(world: World) -> Found:
    """kube-proxy takes a replica at random for each connection, whatever it has to do."""
    for service in world.of_kind("Service"):
        if service.spec.get("clusterIP") == "None":
            continue
        for owner, _ in world.selected(mapping(service.spec.get("selector")), service.namespace):
            if world.serves(owner) and owner.replicas > 1:
                yield (
                    service,
                    (
                        "risk",
                        f"it deals connections to {owner} at random, once each: long requests pile up on "
                        "some "
                        "engines; make it headless and put a gateway in front that counts",
                    ),
                )


def engines_are_open_to_the_world(world: World) -> Found:
    """An engine's port has no limits, and by default no key."""
    for service in world.of_kind("Service"):
        kind = service.spec.get("type")
        chosen = world.selected(mapping(service.spec.get("selector")), service.namespace)
        if kind in ("LoadBalancer", "NodePort") and any(world.serves(owner) for owner, _ in chosen):
            yield (
                service,
                (
                    "fault",
                    f"type {kind} puts engines before everybody, without keys, limits or priorities: put a "
                    "gateway there",
                ),
            )


def nobody_is_shut_out(world: World) -> Found:
    """Without a NetworkPolicy every pod of the cluster reaches the engines."""
    policies = [mapping(at(it.spec, "podSelector", "matchLabels")) for it in world.of_kind("NetworkPolicy")]
    for engine in world.engines:
        if not any(chooses(wanted, engine.labels) for wanted in policies):
            yield (
                engine.owner,
                (
                    "risk",
                    "no NetworkPolicy chooses it: every pod of the cluster may ask it, past the gateway",
                ),
            )


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


def nobody_counts_who_is_taken_away(world: World) -> Found:
    """Whoever empties nodes asks the budgets."""
    budgets = [mapping(at(it.spec, "selector", "matchLabels")) for it in world.of_kind("PodDisruptionBudget")]
    for owner in world.of_kind(*ROLLED):
        labels = [mapping(at(template, "metadata", "labels")) for template in owner.templates]
        if (
            world.serves(owner)
            and owner.replicas > 1
            and not any(wanted and chooses(wanted, label) for wanted in budgets for label in labels)
        ):
            yield owner, ("risk", "no PodDisruptionBudget chooses it: a drain of nodes may take all at once")


def a_budget_allows_nothing(world: World) -> Found:
    """Nodes can then never be emptied."""
    for budget in world.of_kind("PodDisruptionBudget"):
        wanted = mapping(at(budget.spec, "selector", "matchLabels"))
        least, most = budget.spec.get("minAvailable"), budget.spec.get("maxUnavailable")
        for owner, _ in world.selected(wanted, budget.namespace):
            told = isinstance(least, int) and "replicas" in owner.spec and least >= owner.replicas
            if told or str(least) == "100%" or str(most) in ("0", "0%"):
                yield budget, ("fault", f"it lets none of {owner} go: no node under it can ever be emptied")


def replicas_share_a_node(world: World) -> Found:
    """A node's end is then the pool's."""
    for owner in world.of_kind("Deployment", "StatefulSet"):
        if owner.replicas < 2 or not world.serves(owner):
            continue
        pod = mapping(at(owner.templates[0], "spec"))
        if not pod.get("topologySpreadConstraints") and not at(pod, "affinity", "podAntiAffinity"):
            yield owner, ("risk", "nothing spreads its replicas: one node, rack or switch may have them all")


def names_are_there_twice(world: World) -> Found:
    """The later one replaces the earlier."""
    counted = Counter((it.kind, it.namespace, it.name) for it in world.objects if it.kind != "Kustomization")
    for owner in world.objects:
        if counted[owner.kind, owner.namespace, owner.name] > 1 and owner.name:
            yield owner, ("fault", "another object has its kind and name: the one applied last replaces it")


def secrets_stand_in_the_files(world: World) -> Found:
    """Whoever reads the repository has them."""
    from kilocard.specs.cluster.secrets import is_secret_name, looks_secret

    for owner in world.objects:
        if owner.kind == "Secret" and (owner.content.get("data") or owner.content.get("stringData")):
            yield (
                owner,
                ("fault", "its values stand in the file: base64 hides nothing; create it beside the files"),
            )
        if owner.kind == "ConfigMap":
            for name, value in mapping(owner.content.get("data")).items():
                if looks_secret(str(value)) or is_secret_name(str(name)):
                    yield owner, ("fault", f"{name} looks like a secret: a ConfigMap is read by everybody")
        for template in owner.templates:
            for container in rows(at(template, "spec", "containers")):
                for row in rows(container.get("env")):
                    plain = row.get("value")
                    if plain and (is_secret_name(str(row.get("name"))) or looks_secret(str(plain))):
                        yield (
                            owner,
                            ("fault", f"{row.get('name')} is a secret in plain: valueFrom a secretKeyRef"),
                        )


def _flag_ports(world: World, owner: Object) -> set[str]:
    return {port for engine in world.engines if engine.owner is owner and (port := engine.flag("--port"))}


def _shown(labels: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items()) or "(nothing)"


RULES = {
    "surge-on-full": a_surge_needs_cards_that_are_not_there,
    "recreate": everything_is_recreated_at_once,
    "selector-mismatch": a_selector_does_not_choose_its_own,
    "service-chooses-nobody": a_service_chooses_nobody,
    "service-port": a_service_speaks_to_a_closed_port,
    "balanced-connections": connections_are_balanced_not_requests,
    "open-engines": engines_are_open_to_the_world,
    "no-network-policy": nobody_is_shut_out,
    "one-node-volume": one_node_has_the_volume,
    "weights-of-the-node": weights_are_of_the_node,
    "no-disruption-budget": nobody_counts_who_is_taken_away,
    "budget-allows-nothing": a_budget_allows_nothing,
    "replicas-share-a-node": replicas_share_a_node,
    "name-twice": names_are_there_twice,
    "secret-in-file": secrets_stand_in_the_files,
}
