"""The operator's orders: what is in flight, drain, weight, add, remove, canary, reload."""

from __future__ import annotations

import time
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import ValidationError

from kilocard.gateway.door import METRICS_KIND, Door, scene_of
from kilocard.gateway.front import Front
from kilocard.gateway.keys import KeyRing, presented_key, read_keys
from kilocard.gateway.member import Member
from kilocard.gateway.message import Message
from kilocard.gateway.refusal import RefusalError
from kilocard.gateway.station import Station
from kilocard.gateway.telemetry import metrics_page
from kilocard.specs.cluster import Canary, Replica

if TYPE_CHECKING:
    from kilocard.gateway.server import Process

NAMED = ("127.0.0.1", "localhost", "[::1]")


class AdminDoor(Door):
    """Takes orders, from whoever has a key, or from this machine where none is asked for."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._orders: dict[tuple[bytes, bytes], Callable[[dict[str, Any]], Any]] = {
            (b"GET", b"/replicas"): lambda _: self.listed(),
            (b"POST", b"/drain"): self._drain,
            (b"POST", b"/resume"): self._resume,
            (b"POST", b"/weight"): self._weigh,
            (b"POST", b"/add"): self._add,
            (b"POST", b"/remove"): self._remove,
            (b"POST", b"/canary"): self._set_canary,
            (b"POST", b"/reload"): self._reload,
        }

    def answer(self, front: Front, message: Message) -> None:
        """One order."""
        self._enter(message)
        if message.path == b"/metrics":
            front.respond(200, metrics_page(scene_of(self._process)), kind=METRICS_KIND)
            return
        order = self._orders.get((message.method, message.path))
        if order is None:
            known = ", ".join(f"{method.decode()} {path.decode()}" for method, path in self._orders)
            raise RefusalError(404, f"no such order: {known}")
        front.respond(200, msgspec.json.encode(order(_asked(message))))

    def listed(self) -> dict[str, Any]:
        """Every replica as the gateway sees it."""
        process = self._process
        process.house.books.settle()
        rows = []
        for station in process.placing.stations:
            table = station.pool.replicas
            for member in station.pool.members:
                row = member.row
                rows.append(
                    {
                        "pool": station.pool.name,
                        "model": station.pool.model,
                        "id": member.id,
                        "url": f"http://{member.host}:{member.port}",
                        "node": member.node,
                        "version": member.version,
                        "group": member.group,
                        "state": process.warden.state_of(member),
                        "in_flight": int(table.active[row]),
                        "cap": int(table.cap[row]),
                        "weight": member.weight,
                        "share": float(table.share[row]),
                        "tpot_s": float(table.tpot_s[row]),
                        "prefill_s": float(table.prefill_s[row]),
                        "kv_free": float(table.kv_free[row]) if member.kv_seen_s else None,
                        "kv_age_s": perf_counter() - member.kv_seen_s if member.kv_seen_s else None,
                        "prompt_tokens": int(table.prompt_tokens[row]),
                        "output_left": float(table.output_left[row]),
                        "served": member.served,
                        "failures": member.failures,
                        "wants_restart": member.wants_restart,
                    }
                )
        waiting = {station.pool.name: len(station.line) for station in process.placing.stations}
        return {"replicas": rows, "waiting": waiting, "in_flight": len(process.house.calls)}

    def _enter(self, message: Message) -> None:
        """A page in somebody's browser must not give orders: the host has to be this one, or a key be
        shown."""
        ring = self._ring()
        if ring is None:
            host = message.header(b"host").decode("latin-1")
            name = host.rpartition(":")[0] or host
            if name not in NAMED:
                raise RefusalError(403, "orders are taken at 127.0.0.1: ask there, or set admin.keys")
        elif ring.find(presented_key(message.header(b"authorization")), time.time()) is None:
            raise RefusalError(
                401, "no key of an operator: send authorization: Bearer KEY", "invalid_api_key"
            )

    def _ring(self) -> KeyRing | None:
        keys = self._process.spec.gateway.admin.keys
        return read_keys(keys) if keys else None

    def _find(self, order: dict[str, Any]) -> tuple[Station, Member]:
        id = order.get("id")
        for station in self._process.placing.stations:
            for member in station.pool.members:
                if member.id == id and not member.is_leaving:
                    return station, member
        raise RefusalError(404, f"no replica is called {id!s:.100}: see GET /replicas")

    def _drain(self, order: dict[str, Any]) -> dict[str, Any]:
        station, member = self._find(order)
        self._process.registry.drain(station, member, leaves=False)
        return {"id": member.id, "state": "draining", "in_flight": station.pool.active(member)}

    def _resume(self, order: dict[str, Any]) -> dict[str, Any]:
        _, member = self._find(order)
        member.is_draining = False
        return self._applied(member)

    def _weigh(self, order: dict[str, Any]) -> dict[str, Any]:
        _, member = self._find(order)
        weight = order.get("weight")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
            raise RefusalError(400, f"weight {weight!s:.40} is not from 0 to 1")
        member.weight = float(weight)
        return self._applied(member)

    def _add(self, order: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        pool = order.pop("pool", None)
        station = next((it for it in process.placing.stations if it.pool.name == pool), None)
        if station is None:
            names = ", ".join(it.pool.name for it in process.placing.stations)
            raise RefusalError(404, f"no pool is called {pool!s:.100}: use {names}")
        try:
            replica = Replica.model_validate(order)
        except ValidationError as error:
            told = error.errors(include_url=False)[0]
            raise RefusalError(400, f"{'.'.join(map(str, told['loc']))}: {told['msg']}") from None
        taken = {
            it.id for other in process.placing.stations for it in other.pool.members if not it.is_leaving
        }
        if replica.id in taken:
            raise RefusalError(409, f"{replica.id} is there already: remove it first")
        spec = next((it for it in process.spec.pools if it.name == pool), None)
        cap = spec.cap_of(replica) if spec else replica.cap or 0
        member = process.registry.add(station, replica, cap, process.spec.gateway.timeouts.connect_s)
        return self._applied(member)

    def _remove(self, order: dict[str, Any]) -> dict[str, Any]:
        station, member = self._find(order)
        self._process.registry.drain(station, member, leaves=True)
        return {"id": member.id, "state": "leaving", "in_flight": station.pool.active(member)}

    def _set_canary(self, order: dict[str, Any]) -> dict[str, Any]:
        share = order.get("share")
        if share == 0:
            self._process.placing.canary = None
            return {"canary": None}
        try:
            canary = Canary.model_validate(order)
        except ValidationError as error:
            told = error.errors(include_url=False)[0]
            raise RefusalError(400, f"{'.'.join(map(str, told['loc']))}: {told['msg']}") from None
        self._process.placing.canary = canary
        return {"canary": canary.model_dump()}

    def _reload(self, _: dict[str, Any]) -> dict[str, Any]:
        if fault := self._process.reload():
            raise RefusalError(400, fault)
        return {"reloaded": True}

    def _applied(self, member: Member) -> dict[str, Any]:
        process = self._process
        process.tick_now()
        return {"id": member.id, "weight": member.weight, "state": process.warden.state_of(member)}


def _asked(message: Message) -> dict[str, Any]:
    if not message.content:
        return {}
    try:
        told = msgspec.json.decode(message.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusalError(400, f"the order is no JSON: {error!s:.100}") from None
    if not isinstance(told, dict):
        raise RefusalError(400, "an order is a JSON object")
    return told
