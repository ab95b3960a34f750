"""All gateways that are compared, and none at all."""

from __future__ import annotations

from gateway_peers.kilocard_gateway import KILOCARD
from gateway_peers.place import Gateway
from gateway_peers.proxies import PROXIES
from gateway_peers.routers import ROUTERS

DIRECT = Gateway("direct", "", None, lambda: "")
GATEWAYS: tuple[Gateway, ...] = (DIRECT, *KILOCARD, *PROXIES, *ROUTERS)
PEERS = tuple(dict.fromkeys(gateway.peer for gateway in GATEWAYS))
