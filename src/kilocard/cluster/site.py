"""Which engines a machine, a rack, a switch or a power domain takes with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilocard.cluster.engines import Fleet
from kilocard.errors import KilocardError
from kilocard.specs.cluster import ClusterSpec
from kilocard.specs.scenario import Site


@dataclass(frozen=True, slots=True)
class Places:
    """By engine, the first and the last machine that it stands on."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    names: tuple[str, ...]
    site: Site

    @property
    def nodes(self) -> int:
        """Machines in all."""
        return int(self.last.max()) + 1

    def engines(self, what: str, which: str | int) -> list[int]:
        """Those that the fault of one thing befalls."""
        if what == "replica":
            if which not in self.names:
                raise KilocardError(f"a fault befalls replica {which}, and there is none of that name")
            return [self.names.index(str(which))]
        nodes = self._nodes(what, int(which))
        if nodes.start >= self.nodes:
            raise KilocardError(f"a fault befalls {what} {which}, and the site has no such {what}")
        return np.nonzero((self.first < nodes.stop) & (self.last >= nodes.start))[0].tolist()

    def _nodes(self, what: str, which: int) -> range:
        site = self.site
        wide = {
            "node": 1,
            "rack": site.nodes_per_rack,
            "switch": site.nodes_per_switch,
            "domain": site.nodes_per_rack * site.racks_per_domain,
        }[what]
        return range(which * wide, (which + 1) * wide)


def places_of(spec: ClusterSpec, fleet: Fleet, site: Site) -> Places:
    """Pools in the file's order, each on machines of its own, engines side by side."""
    first, last, node = [], [], 0
    for p, pool in enumerate(spec.pools):
        cards = spec.cards_of(pool)
        count = int(fleet.begins[p + 1] - fleet.begins[p])
        each = max(1, pool.cards_per_node // cards)
        wide = -(-cards // pool.cards_per_node)
        at = node + np.arange(count) // each * wide
        first.append(at)
        last.append(at + wide - 1)
        node = int(at[-1]) + wide
    return Places(np.concatenate(first), np.concatenate(last), fleet.names, site)
