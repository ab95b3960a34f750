"""Starts what a slot wants: where on the box, with which program, and kept by whom."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kilocard.deploy.haproxy import render
from kilocard.deploy.haproxy_process import haproxy_path
from kilocard.gateway.place import Place as GatewayPlace
from kilocard.launch.command import Flavour, find_build
from kilocard.launch.keep import Kept, Program, keep
from kilocard.launch.model_files import model_folder
from kilocard.launch.place import ANYWHERE, Place, places_on_cards, places_on_cores
from kilocard.launch.process import usable_cores
from kilocard.launch.replicas import visible_cards
from kilocard.specs.cluster import ClusterSpec
from kilocard.specs.text_file import write_whole
from kilocard.supervisor.checksums import Verifier
from kilocard.supervisor.home import Home
from kilocard.supervisor.programs import engine_program, gateway_program
from kilocard.supervisor.roster import BALANCER, GATEWAYS, seats
from kilocard.supervisor.state import Held, State


@dataclass(frozen=True, slots=True)
class Starter:
    """Of one cluster. `engine_key` is what engines ask of whoever talks to them, `admin_key` what gateways
    ask of whoever gives them orders."""

    home: Home
    is_emulated: bool
    engine_key: str = field(default="", repr=False)
    admin_key: str = field(default="", repr=False)
    verifier: Verifier = field(default_factory=Verifier, repr=False)

    def prepare(self, spec: ClusterSpec, say: Callable[[str], None]) -> None:
        """What the first start would wait for: a model of the book is fetched and converted."""
        for pool in spec.pools:
            if pool.count and not self.is_emulated:
                model_folder(spec.engine_of(pool).model, say)

    def start(self, spec: ClusterSpec, state: State, held: Held) -> Kept:
        """Start it; KilocardError where this box cannot. Weights whose sums are named are verified first."""
        slot, log = held.slot, self.home.log_of(held.slot.name)
        if slot.pool == GATEWAYS:
            program = gateway_program(self._gateway_place(spec, held), log)
        elif slot.pool == BALANCER:
            program = self._balancer_program(spec, log)
        else:
            recipe = state.recipes[slot.runs]
            place = ANYWHERE
            if not recipe.is_emulated:
                self.verifier.verify(recipe.engine.served_model_name or "", recipe.weights)
                place = place_of(spec, state, slot.name)
            program = engine_program(recipe, held.port, log, place, self.engine_key)
        return keep(self.home.key_of(slot.name), program, slot.runs)

    def _gateway_place(self, spec: ClusterSpec, held: Held) -> GatewayPlace:
        return GatewayPlace(
            path=self.home.cluster,
            host=spec.gateway.host,
            port=held.port,
            gateway=int(held.slot.name.rpartition("-")[2]),
            gateways=spec.gateway.gateways,
            drain_s=spec.lifecycle.drain_s,
        )

    def _balancer_program(self, spec: ClusterSpec, log: Path) -> Program:
        path = self.home.folder / "haproxy.cfg"
        write_whole(path, render(spec))
        argv = (haproxy_path() or "haproxy", "-db", "-f", str(path))
        own = spec.balancer
        return Program(argv, dict(os.environ), log, spec.lifecycle.drain_s, host=own.host, port=own.port)


def place_of(spec: ClusterSpec, state: State, name: str) -> Place:
    """The cores or cards of one engine: the box is shared out among all that the file asks for, in its
    order."""
    asked = [seat.name for seat in seats(spec) if seat.pool in state.changes and seat.pool[0] != ":"]
    ranks = {pool.name: spec.cards_of(pool) for pool in spec.pools}
    each = max(ranks.values())
    if find_build().flavour is Flavour.GPU:
        places = places_on_cards(len(asked), each, visible_cards())
    else:
        places = places_on_cores(len(asked), each, usable_cores())
    return places[asked.index(name)] if name in asked else ANYWHERE
