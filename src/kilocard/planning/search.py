"""The cheapest way to meet a target: what no bound rules out is simulated, the most promising first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf

from kilocard.cluster.summary import Summary
from kilocard.errors import KilocardError
from kilocard.planning.candidate import Candidate, candidates, price_of
from kilocard.planning.trial import STEPS, Trials, meets, replicas_for
from kilocard.specs.target import Offer, Target

Progress = Callable[[int, int], None] | None


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate that meets the SLO with so many replicas, each at `requests_per_s`; its price an hour."""

    candidate: Candidate
    replicas: int
    requests_per_s: float
    price_per_hour: float
    seen: Summary

    @property
    def cards(self) -> int:
        """All its replicas'."""
        return self.replicas * self.candidate.tensor_parallel


@dataclass(frozen=True, slots=True)
class Search:
    """What came of a search: the best, all that were simulated to the end, and how the rest was ruled out."""

    best: Option
    options: tuple[Option, ...]
    considered: int
    ruled_out: int
    lost: int
    simulations: int

    @property
    def front(self) -> tuple[Option, ...]:
        """The options that no other one beats in price, TTFT and TPOT at once."""
        return tuple(it for it in self.options if not any(_beats(other, it) for other in self.options))


def wanted_per_s(target: Target) -> float:
    """Requests a second that the plan is made for: the target's and its headroom."""
    return target.requests_per_s * (1 + target.headroom)


def search(
    target: Target,
    trials: Trials | None = None,
    among: Sequence[Candidate] | None = None,
    progress: Progress = None,
) -> Search:
    """Branch and bound: the candidates in the order of the least that they could cost; the first whose bound
    is over the best price found ends it."""
    trials = trials or Trials(target)
    tried = list(candidates(target)) if among is None else list(among)
    bounds = {it: _least_price(target, trials, it) for it in tried}
    order = sorted((it for it in tried if bounds[it] < inf), key=lambda it: (bounds[it], it.label))
    best: Option | None = None
    options: list[Option] = []
    seen = lost = 0
    for number, candidate in enumerate(order):
        if progress:
            progress(number, len(order))
        if best is not None and bounds[candidate] >= best.price_per_hour:
            break
        seen += 1
        found = evaluated(target, trials, candidate, best.price_per_hour if best else inf)
        if found is None:
            lost += 1
            continue
        options.append(found)
        if best is None or _order(found) < _order(best):
            best = found
    if best is None:
        raise KilocardError(_nothing_will_do(target, trials, tried))
    return Search(best, tuple(options), len(tried), len(tried) - seen, lost, trials.simulated)


def evaluated(target: Target, trials: Trials, candidate: Candidate, under: float = inf) -> Option | None:
    """A candidate's fewest replicas; None where it does not do, or not for less than `under` an hour."""
    bound_s, price = trials.bound_per_s(candidate), _price(target, candidate)
    low = 0
    if under < inf and price > 0:
        affordable = ceil(under / price - 1e-9) - 1
        if affordable < 1:
            return None
        low = max(1, ceil(wanted_per_s(target) / affordable / bound_s * STEPS - 1e-9))
        if low > STEPS or not trials.holds(candidate, low):
            return None
    step = trials.highest(candidate, low)
    if step == 0:
        return None
    replicas = replicas_for(wanted_per_s(target), trials.rate(candidate, step))
    if replicas * candidate.tensor_parallel > _offer(target, candidate).most:
        return None
    return Option(
        candidate, replicas, trials.rate(candidate, step), replicas * price, trials.at(candidate, step)
    )


def verified(target: Target, trials: Trials, option: Option, most_tries: int = 12) -> tuple[Option, Summary]:
    """The winner as large as it will be, under all that is planned for; a few replicas more where the small
    fleet promised too much."""
    for _ in range(most_tries):
        seen = trials.seen(option.candidate, option.replicas, wanted_per_s(target))
        if meets(target.slo, seen):
            return option, seen
        more = option.replicas + max(1, floor(0.01 * option.replicas))
        option = replace(
            option,
            replicas=more,
            requests_per_s=wanted_per_s(target) / more,
            price_per_hour=more * _price(target, option.candidate),
        )
    raise KilocardError(
        f"{option.candidate.label}: {option.replicas} replicas do not hold in full what a small fleet held; "
        "loosen the SLO or raise headroom"
    )


def _least_price(target: Target, trials: Trials, candidate: Candidate) -> float:
    bound_s = trials.bound_per_s(candidate)
    if not bound_s:
        return inf
    replicas = replicas_for(wanted_per_s(target), bound_s)
    if replicas * candidate.tensor_parallel > _offer(target, candidate).most:
        return inf
    return replicas * _price(target, candidate)


def _price(target: Target, candidate: Candidate) -> float:
    return candidate.tensor_parallel * price_of(_offer(target, candidate))


def _offer(target: Target, candidate: Candidate) -> Offer:
    return next(offer for offer in target.cards if offer.card == candidate.card)


def _order(option: Option) -> tuple[float, float, str]:
    """Cheaper first; of equals the one that is further from its limits."""
    return option.price_per_hour, -option.requests_per_s * option.replicas, option.candidate.label


def _beats(one: Option, other: Option) -> bool:
    mine, its = _measures(one), _measures(other)
    return all(a <= b for a, b in zip(mine, its, strict=True)) and mine != its


def _measures(option: Option) -> tuple[float, float, float]:
    return option.price_per_hour, option.seen.ttft_s.p99 or 0.0, option.seen.tpot_s.p99 or 0.0


def _nothing_will_do(target: Target, trials: Trials, tried: Sequence[Candidate]) -> str:
    if not tried:
        cards = ", ".join(offer.card for offer in target.cards)
        way_out = "offer cards with more memory, or smaller weights"
        return f"{target.model} fits on none of {cards} in any cut: {way_out}"
    limits = ", ".join(
        f"{name} {value:g}" for name, value in target.slo.model_dump(exclude_none=True).items()
    )
    return (
        f"none of {len(tried)} ways to serve {target.model} meets {limits} within the cards that are there: "
        "loosen the SLO, offer faster cards or more of them"
    )
