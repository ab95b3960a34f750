"""Who may come in, as whom, and how much each may ask."""

from __future__ import annotations

import time
from math import ceil, inf

from kilocard.gateway.call import Call
from kilocard.gateway.keys import KeyRing, presented_key, read_keys
from kilocard.gateway.message import Message
from kilocard.gateway.refusal import RefusalError
from kilocard.routing.limits import UNLIMITED, Limit, Limits
from kilocard.specs.cluster import CLASSES, GatewaySpec
from kilocard.specs.cluster.gateway import EVERYBODY


class Doorman:
    """Keys and tenants' limits, of which each of several gateways grants its part."""

    def __init__(self, spec: GatewaySpec, gateways: int) -> None:
        self._gateways = gateways
        self._limits = Limits()
        self.adopt(spec, ring_of(spec))

    def adopt(self, spec: GatewaySpec, ring: KeyRing | None) -> None:
        """Use these keys and limits from now on."""
        self._ring = ring
        self._spec = spec
        self._ceilings: dict[str, int] = {}
        self._parts: dict[str, Limit] = {}

    def enter(self, message: Message) -> str:
        """The tenant whose key it is; everybody's where none is asked for."""
        if self._ring is None:
            return EVERYBODY
        presented = presented_key(message.header(b"authorization")) or message.header(b"x-api-key")
        if not presented:
            raise RefusalError(401, "no API key: send authorization: Bearer KEY", "missing_api_key")
        key = self._ring.find(presented, time.time())
        if key is None:
            raise RefusalError(401, "this API key is not known here, or has expired", "invalid_api_key")
        return key.tenant

    def ceiling(self, tenant: str) -> int:
        """The best rank that the tenant is served in."""
        rank = self._ceilings.get(tenant)
        if rank is None:
            rank = self._ceilings[tenant] = CLASSES.index(self._spec.tenant(tenant).ceiling)
        return rank

    def charge(self, tenant: str, tokens: int, now_s: float) -> None:
        """Of the tenant's limits; RefusalError where they are used up for now."""
        limit = self._limit(tenant)
        if limit is UNLIMITED:
            return
        wait_s = self._limits.take(tenant, limit, tokens, now_s)
        if wait_s > 0:
            told = f"the tenant {tenant} has used up its limit: come again in {ceil(wait_s)} s"
            raise RefusalError(429, told, "rate_limit", wait_s)

    def settle(self, call: Call) -> None:
        """What a call came to: nothing, where no engine saw it."""
        limit = self._limit(call.tenant)
        if limit is not UNLIMITED:
            used = call.arrival.prompt_tokens + call.tokens if call.sent_s else 0
            self._limits.settle(call.tenant, limit, call.charged, used, call.ended_s)

    def _limit(self, tenant: str) -> Limit:
        """This gateway's part of what the tenant may."""
        limit = self._parts.get(tenant)
        if limit is None:
            allowed = self._spec.tenant(tenant)
            limit = UNLIMITED
            if allowed.requests_per_s or allowed.tokens_per_s:
                whole = Limit(allowed.requests_per_s or inf, allowed.tokens_per_s or inf, allowed.burst_s)
                limit = whole.of_one(self._gateways)
            self._parts[tenant] = limit
        return limit


def ring_of(spec: GatewaySpec) -> KeyRing | None:
    """The keys that it names, if it does; KilocardError where they cannot be read."""
    return read_keys(spec.keys) if spec.keys else None
