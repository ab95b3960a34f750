"""Kilocard's own gateway, as a user starts it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec

import yaml
from peer_environment import PeerMissingError

from gateway_peers.place import Command, Gateway, Place, free_ports
from kilocard import __version__

START = "from kilocard.cli import main; main()"


def under(policy: str) -> Callable[[Place], Command]:
    """One process before the engines, under a policy; empty is the one that it has unless told."""

    def command(place: Place) -> Command:
        admin_port, _ = free_ports(2)
        gateway = {
            "port": place.port,
            "admin": {"port": admin_port},
            "metrics": {"port": place.metrics_port},
            "access_log": {"path": str(place.folder / "access.log")},
            **({"policy": policy} if policy else {}),
        }
        pool = {"name": "all", "replicas": place.urls}
        cluster = {"name": "compared", "model": "fake", "pools": [pool], "gateway": gateway}
        path = place.file("cluster.yaml", yaml.safe_dump(cluster))
        argv = [sys.executable, "-c", START, "gateway", path, "--port", str(place.port), "--workers", "1"]
        return Command(argv)

    return command


def version() -> str:
    """Of the package."""
    if find_spec("kilocard.gateway") is None:
        raise PeerMissingError("there is no kilocard.gateway yet")
    return __version__


KILOCARD = tuple(
    Gateway("kilocard", policy, under(policy), version) for policy in ("", "least-delay", "prefix-affinity")
)
