"""Who may come in, as whom, and how much each may ask."""

from __future__ import annotations

import time

from kilocard.gateway.keys import KeyRing, presented_key, read_keys
from kilocard.gateway.message import Message
from kilocard.gateway.refusal import RefusalError
from kilocard.specs.cluster import CLASSES, GatewaySpec
from kilocard.specs.cluster.gateway import EVERYBODY


class Doorman:
    """Keys and tenants' limits, of which each of several gateways grants its part."""

    def __init__(self, spec: GatewaySpec, gateways: int) -> None:
        self._gateways = gateways
        self.adopt(spec)

    def adopt(self, spec: GatewaySpec) -> None:
        """Use these keys and limits from now on; a fault in the keys leaves those that there were."""
        ring = read_keys(spec.keys) if spec.keys else None
        self._ring: KeyRing | None = ring
        self._spec = spec

    def enter(self, message: Message) -> str:
        """The tenant whose key it is; everybody's where none is asked for."""
        if self._ring is None:
            return EVERYBODY
        presented = presented_key(message.authorization) or message.api_key
        if not presented:
            raise RefusalError(401, "no API key: send authorization: Bearer KEY", "missing_api_key")
        key = self._ring.find(presented, time.time())
        if key is None:
            raise RefusalError(401, "this API key is not known here, or has expired", "invalid_api_key")
        return key.tenant

    def ceiling(self, tenant: str) -> int:
        """The best rank that the tenant is served in."""
        return CLASSES.index(self._spec.tenant(tenant).ceiling)

    def charge(self, tenant: str, tokens: int, now_s: float) -> None:
        """Of the tenant's limits."""

    def settle(self, tenant: str, charged: int, used: int, now_s: float) -> None:
        """What it came to."""
