"""Where engines run: which cores, which cards, and how a box is shared out among several. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from kilocard.errors import KilocardError
from kilocard.topology.pinning import spare_cores


@dataclass(frozen=True, slots=True)
class Place:
    """The cores and cards that belong to one engine; none named: it takes what the box lends."""

    cores: tuple[int, ...] = ()
    cards: tuple[str, ...] = ()
    """As CUDA_VISIBLE_DEVICES names them."""

    def __post_init__(self) -> None:
        for what, given in (("cores", self.cores), ("cards", self.cards)):
            if len(set(given)) < len(given):
                raise KilocardError(f"{what} {_listed(given)}: one of them is named twice; name each once")


ANYWHERE = Place()


def check_cores(cores: Sequence[int], usable: Sequence[int]) -> None:
    """An error for a core that this process may not use."""
    if strange := [core for core in cores if core not in usable]:
        raise KilocardError(
            f"core {_listed(strange)} cannot be used: this process may use {_listed(usable)}; name of these"
        )


def share_cores(ranks: int, cores: Sequence[int]) -> list[list[int]]:
    """Equal shares of the cores, by rank; the last core (two of more than eight) is left to the client."""
    return split(ranks, cores[: len(cores) - spare_cores(len(cores), ranks)])


def split(ranks: int, cores: Sequence[int]) -> list[list[int]]:
    """Equal shares of all of these cores, by rank; what does not divide is left."""
    if len(cores) < ranks:
        raise KilocardError(
            f"{ranks} ranks need {ranks} cores and this box lends {len(cores)}: use a smaller "
            "tensor_parallel_size, pipeline_parallel_size or data_parallel_size"
        )
    each = len(cores) // ranks
    return [list(cores[rank * each : (rank + 1) * each]) for rank in range(ranks)]


def places_on_cores(count: int, ranks: int, cores: Sequence[int]) -> list[Place]:
    """A place for each replica: equal shares of the cores, one left to the client where there are enough."""
    if len(cores) < count * ranks:
        raise KilocardError(
            f"{_replicas(count, ranks)} need {count * ranks} cores and this box lends "
            f"{len(cores)}: start fewer"
        )
    return [Place(cores=tuple(share)) for share in _by_replica(count, ranks, cores)]


def places_on_cards(count: int, ranks: int, cards: Sequence[str]) -> list[Place]:
    """A place for each replica: a card for every rank."""
    if len(cards) < count * ranks:
        raise KilocardError(
            f"{_replicas(count, ranks)} need {count * ranks} cards and this box lends "
            f"{len(cards)}: start fewer, or use a smaller tensor_parallel_size"
        )
    return [Place(cards=tuple(cards[replica * ranks :][:ranks])) for replica in range(count)]


def _by_replica(count: int, ranks: int, cores: Sequence[int]) -> list[list[int]]:
    shares = share_cores(count * ranks, cores)
    return [list(chain(*shares[replica * ranks :][:ranks])) for replica in range(count)]


def _replicas(count: int, ranks: int) -> str:
    return f"{count} replicas of {ranks} {'rank' if ranks == 1 else 'ranks'}"


def _listed(given: Sequence[int | str]) -> str:
    return ", ".join(map(str, given))
