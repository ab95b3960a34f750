"""From the cluster file to stations and members, and from one reading of it to the next."""

from __future__ import annotations

from collections.abc import Sequence

from kilocard.gateway.lines import Lines
from kilocard.gateway.member import Member
from kilocard.gateway.placing import Placing
from kilocard.gateway.pool import Pool, compiled_policy
from kilocard.gateway.station import GONE, Station
from kilocard.routing.admission import Priority
from kilocard.routing.limits import owned_caps
from kilocard.routing.own_file import policy_at
from kilocard.routing.pools import PoolRule
from kilocard.routing.waiting import Line
from kilocard.specs.cluster import CLASSES, ClusterSpec, Replica
from kilocard.specs.cluster import Pool as PoolSpec


class Registry:
    """Of gateway number `gateway` of `gateways`; `engine_key` is what engines ask of it."""

    def __init__(self, placing: Placing, gateway: int, gateways: int, engine_key: str = "") -> None:
        self._placing, self._gateway, self._gateways = placing, gateway, gateways
        self._engine_key = engine_key
        self.leaving: list[tuple[Station, Member]] = []
        self._found: dict[str, tuple[Replica, ...]] = {}

    def adopt(self, spec: ClusterSpec, seed: int = 0) -> None:
        """Make stations and members what the file says. Members that are no longer named finish what they
        have; those that stay keep their connections and counts."""
        placing, gateway = self._placing, spec.gateway
        policy = policy_at(gateway.policy)
        compiled_policy(policy)
        placing.priorities = tuple(
            Priority(name, rank, rule.max_wait_s)
            for rank, (name, rule) in enumerate(zip(CLASSES, gateway.classes.by_rank, strict=True))
        )
        placing.canary, placing.pool_rule = gateway.canary, PoolRule(gateway.long_tokens)
        limit = self._owned([gateway.queue.limit])[0]
        known = {(it.pool.name, it.pool.model): it for it in placing.stations}
        stations = []
        for number, pool in enumerate(spec.pools):
            model = spec.model_of(pool)
            station = known.pop((pool.name, model), None) or Station(
                Pool(pool.name, model, policy, seed + number), pool.role, Line(limit, 0.0)
            )
            station.role, station.line.ageing_s = pool.role, gateway.queue.ageing_s
            for call in station.line.resize(limit):
                placing.displace(call, station)
            station.pool.set_policy(policy)
            self._adopt_members(station, pool, gateway.timeouts.connect_s)
            stations.append(station)
        placing.stations = [*stations, *known.values()]
        for station in known.values():
            self._adopt_members(station, None, gateway.timeouts.connect_s)
        placing.sort()
        self._link(spec, stations)

    def found_behind(self, pool: PoolSpec, replicas: Sequence[Replica], connect_s: float) -> None:
        """The replicas that a pool's name stands for now: new ones join, those that it left finish what they
        have."""
        if self._found.get(pool.name) == tuple(replicas):
            return
        self._found[pool.name] = tuple(replicas)
        for station in self._placing.stations:
            if station.pool.name == pool.name and station.role != GONE:
                self._adopt_members(station, pool, connect_s)

    def add(self, station: Station, replica: Replica, cap: int, connect_s: float) -> Member:
        """One more member."""
        member = Member(
            id=replica.id,
            host=replica.host,
            port=replica.port,
            row=0,
            lines=Lines(replica.host, replica.port, connect_s),
            engine_key=self._engine_key,
        )
        _describe(member, replica, cap)
        station.pool.add(member)
        station.pool.set_share(member, 0.0)
        self._share_out(station)
        return member

    def drain(self, station: Station, member: Member, leaves: bool) -> None:
        """Nothing new for it; it goes when it has nothing left, if it leaves."""
        member.is_draining = True
        member.is_leaving = member.is_leaving or leaves
        station.pool.set_share(member, 0.0)
        if leaves and (station, member) not in self.leaving:
            self.leaving.append((station, member))

    def tick(self, now: float, is_draining: bool = False) -> None:
        """Those that leave and have nothing in flight are gone; connections are closed, or held ready."""
        for station, member in list(self.leaving):
            if station.pool.active(member) == 0:
                self.leaving.remove((station, member))
                station.pool.remove(member)
                member.lines.close()
        placing = self._placing
        for station in placing.stations:
            share = station.pool.replicas.share
            for member in station.pool.members:
                member.lines.tidy(now, is_chosen=share[member.row] > 0 and not is_draining)
        if any(it.role == GONE and not it.pool.members for it in placing.stations):
            placing.stations = [it for it in placing.stations if it.pool.members or it.role != GONE]
            placing.sort()

    def _adopt_members(self, station: Station, pool: PoolSpec | None, connect_s: float) -> None:
        wanted = {replica.id: replica for replica in self._replicas(pool)} if pool else {}
        present = {member.id: member for member in station.pool.members if not member.is_leaving}
        for id, member in present.items():
            replica = wanted.get(id)
            if replica is None or (replica.host, replica.port) != (member.host, member.port):
                self.drain(station, member, leaves=True)
        for id, replica in wanted.items():
            assert pool is not None
            old = present.get(id)
            if old is None or old.is_leaving:
                self.add(station, replica, pool.cap_of(replica), connect_s)
            else:
                _describe(old, replica, pool.cap_of(replica))
        self._share_out(station)
        if pool is None:
            station.role = GONE
            for call in station.line.resize(0):
                self._placing.displace(call, station)

    def _replicas(self, pool: PoolSpec) -> Sequence[Replica]:
        return self._found.get(pool.name, ()) if pool.discovery else pool.replicas

    def _share_out(self, station: Station) -> None:
        """This gateway's part of each cap; where that is under the number of gateways, some go without."""
        members = [it for it in station.pool.members if not it.is_leaving]
        for member, part in zip(members, self._owned([it.whole_cap for it in members]), strict=True):
            member.is_owned = part > 0 or member.whole_cap == 0
            station.pool.set_cap(member, part)

    def _owned(self, wholes: list[int]) -> list[int]:
        """Of whole numbers this gateway's parts; 0, which is none or no limit, stays what it is."""
        parts = iter(owned_caps([whole for whole in wholes if whole], self._gateway, self._gateways))
        return [next(parts) if whole else 0 for whole in wholes]

    def _link(self, spec: ClusterSpec, stations: list[Station]) -> None:
        by_name = {station.pool.name: station for station in stations}
        for station in stations:
            station.lenders, station.borrowers = [], []
        for pool in spec.pools:
            for name in pool.borrow_from:
                by_name[pool.name].lenders.append(by_name[name])
                by_name[name].borrowers.append(by_name[pool.name])


def _describe(member: Member, replica: Replica, cap: int) -> None:
    """As the file has it."""
    member.weight, member.whole_cap = replica.weight, cap
    member.is_called(replica.node or "", replica.version or "")
    member.group = replica.group or ""
