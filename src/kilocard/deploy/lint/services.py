"""Mistakes about who is chosen by labels, and who is reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilocard.deploy.lint.manifests import Object, at, mapping, rows
from kilocard.deploy.lint.world import Found, World, chooses


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


def _flag_ports(world: World, owner: Object) -> set[str]:
    return {port for engine in world.engines if engine.owner is owner and (port := engine.flag("--port"))}


def _shown(labels: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items()) or "(nothing)"


RULES = {
    "selector-mismatch": a_selector_does_not_choose_its_own,
    "service-chooses-nobody": a_service_chooses_nobody,
    "service-port": a_service_speaks_to_a_closed_port,
    "balanced-connections": connections_are_balanced_not_requests,
    "open-engines": engines_are_open_to_the_world,
    "no-network-policy": nobody_is_shut_out,
}
