"""What each tenant may ask in requests and in tokens a second, and what each of several gateways grants of
it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from kilocard.errors import KilocardError

MOST_TENANTS = 10_000


@dataclass(frozen=True, slots=True)
class Limit:
    """Rates of a tenant, infinite for none; what it saves up in `burst_s` it may use at once."""

    requests_per_s: float = inf
    tokens_per_s: float = inf
    burst_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("requests_per_s", "tokens_per_s"):
            if not getattr(self, name) > 0:
                raise KilocardError(f"{name} is {getattr(self, name)}: give a rate above 0, or leave it out")
        if not 0 < self.burst_s < inf:
            raise KilocardError(f"burst_s is {self.burst_s}: give seconds above 0")

    def of_one(self, gateways: int) -> Limit:
        """What one of so many gateways owns of it."""
        return Limit(self.requests_per_s / gateways, self.tokens_per_s / gateways, self.burst_s)

    @property
    def burst_requests(self) -> float:
        """The most requests at once: one at the least, or there would be none ever."""
        return max(1.0, self.requests_per_s * self.burst_s)

    @property
    def burst_tokens(self) -> float:
        """The most tokens at once; a request of more has to find the bucket full."""
        return self.tokens_per_s * self.burst_s


UNLIMITED = Limit()


class _Account:
    """What a tenant has left, as of `at_s`. Tokens may be owed."""

    __slots__ = ("at_s", "requests", "tokens")

    def __init__(self, limit: Limit, now_s: float) -> None:
        self.at_s = now_s
        self.requests = limit.burst_requests
        self.tokens = limit.burst_tokens

    def fill(self, limit: Limit, now_s: float) -> None:
        gone_s = now_s - self.at_s
        if gone_s > 0:
            self.requests = min(limit.burst_requests, self.requests + gone_s * limit.requests_per_s)
            self.tokens = min(limit.burst_tokens, self.tokens + gone_s * limit.tokens_per_s)
            self.at_s = now_s


class Limits:
    """The accounts of the tenants that were last heard of; one that is forgotten has been idle the longest,
    and begins anew with a full one."""

    __slots__ = ("_accounts", "most_tenants")

    def __init__(self, most_tenants: int = MOST_TENANTS) -> None:
        if most_tenants < 1:
            raise KilocardError(f"most_tenants is {most_tenants}: give 1 or more")
        self.most_tenants = most_tenants
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def take(self, tenant: str, limit: Limit, tokens: float, now_s: float) -> float:
        """Charge a request of an estimated number of tokens; returns 0, or the seconds until it may be asked
        again, and then nothing is charged.

        `limit` is this gateway's own part of the tenant's, by `Limit.of_one`.
        """
        account = self._account(tenant, limit, now_s)
        wanted = min(tokens, limit.burst_tokens)
        short = ((1 - account.requests, limit.requests_per_s), (wanted - account.tokens, limit.tokens_per_s))
        wait_s = max(lacking / per_s if lacking > 0 else 0.0 for lacking, per_s in short)
        if wait_s > 0:
            return wait_s
        account.requests -= 1
        account.tokens -= tokens
        return 0.0

    def settle(self, tenant: str, limit: Limit, charged: float, used: float, now_s: float) -> None:
        """A request is over: it used so many tokens of those that it was charged, or more."""
        if tenant not in self._accounts:
            return
        account = self._account(tenant, limit, now_s)
        account.tokens = min(limit.burst_tokens, account.tokens + charged - used)

    def _account(self, tenant: str, limit: Limit, now_s: float) -> _Account:
        account = self._accounts.get(tenant)
        if account is None:
            account = self._accounts[tenant] = _Account(limit, now_s)
            if len(self._accounts) > self.most_tenants:
                self._accounts.popitem(last=False)
            return account
        self._accounts.move_to_end(tenant)
        account.fill(limit, now_s)
        return account


def owned_caps(caps: Sequence[int], gateway: int, gateways: int) -> list[int]:
    """Of each replica's cap the part of one gateway, in requests in flight.

    A replica whose cap is under the number of gateways is some gateways' alone: 0 is none of it. What does
    not divide is dealt out in turn, so that all own alike. A cap of 0, which is no limit, has no parts and is
    refused.
    """
    if not 0 <= gateway < gateways:
        raise KilocardError(f"gateway {gateway} of {gateways}: count from 0")
    owned, dealt = [], 0
    for cap in caps:
        if cap < 1:
            raise KilocardError(f"a cap of {cap} has no parts: leave replicas without a cap out")
        whole, rest = divmod(cap, gateways)
        owned.append(whole + ((gateway - dealt) % gateways < rest))
        dealt = (dealt + rest) % gateways
    return owned
