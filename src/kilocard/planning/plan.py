"""A plan: the target, what meets it at the least cost, how that was found, and what it rests on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kilocard.cluster.summary import Summary
from kilocard.errors import KilocardError
from kilocard.planning.baseline import Baseline, Level
from kilocard.planning.calibrating import calibrated, keep_calibration
from kilocard.planning.candidate import candidates, judge_of
from kilocard.planning.capacity import Size, down_share_of, size_of, spares_for
from kilocard.planning.cost import Cost, cost_of
from kilocard.planning.placement import Group, NoPlaceError, Placement, place
from kilocard.planning.rollout import Stage, stages_for
from kilocard.planning.search import Option, Search, search, verified
from kilocard.planning.trial import Trials
from kilocard.planning.waterfall import Fall, waterfall, with_reserve
from kilocard.specs.target import Offer, Target

SOURCES_EFFICIENCY = (0.6, 0.8)
"""What clusters are said to reach of the multiplication; published, of no stated measurement."""


@dataclass(frozen=True, slots=True)
class FromBaseline:
    """What the baseline alone says: its best level, the sizes that follow from it, and the fit to it."""

    baseline: Baseline
    level: Level
    ideal: Size
    discounted: tuple[Size, ...]
    fit_errors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """`option` is as large as the load asks, `replicas` with the spares; `placement` may be why there is
    none."""

    target: Target
    search: Search
    option: Option
    seen: Summary
    spares: int
    falls: tuple[Fall, ...]
    cost: Cost
    stages: tuple[Stage, ...]
    placement: Placement | NoPlaceError | None
    from_baseline: FromBaseline | None
    calibration: str
    calibration_kind: str
    expected_error: dict[str, float]

    @property
    def replicas(self) -> int:
        """All that are bought."""
        return self.option.replicas + self.spares

    @property
    def cards(self) -> int:
        """All that are bought."""
        return self.replicas * self.option.candidate.tensor_parallel

    @property
    def offer(self) -> Offer:
        """The card that was taken."""
        return offer_of(self.target, self.option.candidate.card)


def offer_of(target: Target, card: str) -> Offer:
    """What the target says of a card."""
    return next(offer for offer in target.cards if offer.card == card)


def make_plan(
    target: Target,
    baseline: Baseline | None = None,
    keep: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Plan:
    """Search, verify in full, reserve, place, stage. A baseline corrects the engine model, whose
    coefficients are kept in the folder `keep`."""

    def tell(what: str) -> Callable[[int, int], None] | None:
        return (lambda done, total: progress(what, done, total)) if progress else None

    files: dict[str, str] = {}
    learnt, seen_at_once = None, None
    if baseline is not None:
        learnt, files = _learn(target, baseline, keep)
        seen_at_once = dict.fromkeys(files, baseline.most_at_once)
    trials = Trials(target, files)
    among = list(candidates(target, seen_at_once))
    found = search(target, trials, among, tell("searching"))
    option, seen = verified(target, trials, found.best)
    candidate = option.candidate
    failures = target.failures
    down = down_share_of(failures.card_hours, failures.repair_h, candidate.tensor_parallel)
    spares = spares_for(option.replicas, down, target.availability)
    falls = waterfall(target, candidate, files)
    judge = judge_of(target, candidate.card, candidate.weights, calibration=files.get(candidate.card))
    offer = offer_of(target, candidate.card)
    cards = (option.replicas + spares) * candidate.tensor_parallel
    return Plan(
        target=target,
        search=found,
        option=option,
        seen=seen,
        spares=spares,
        falls=with_reserve(falls, target.headroom, option.replicas, spares),
        cost=cost_of(offer, cards, target.output_tokens_per_s),
        stages=stages_for(target, trials, option),
        placement=_placed(target, option, spares),
        from_baseline=learnt,
        calibration=judge.calibration.name,
        calibration_kind=judge.calibration.kind,
        expected_error=dict(judge.calibration.expected_error),
    )


def _learn(target: Target, baseline: Baseline, keep: Path | None) -> tuple[FromBaseline, dict[str, str]]:
    if baseline.model and baseline.model != target.model:
        raise KilocardError(
            f"the baseline is of {baseline.model} and the target asks for {target.model}: measure that one, "
            "or plan without --baseline"
        )
    cards = [offer.card for offer in target.cards]
    card = baseline.card if baseline.card in cards else cards[0]
    if baseline.card not in cards and len(cards) > 1:
        raise KilocardError(
            f"the baseline {'ran on ' + baseline.card if baseline.card else 'names no card'}, and the "
            f"target offers {', '.join(cards)}: leave the one that it ran on"
        )
    if keep is None:
        raise KilocardError("a baseline's coefficients are kept as a file: name a folder")
    keep.mkdir(parents=True, exist_ok=True)
    level = baseline.best_within(target.slo)
    found, errors = calibrated(baseline, judge_of(target, card, baseline.weights or target.weights[0]), level)
    place_of_it = keep_calibration(keep / "calibration.yaml", found)
    each = level.output_tokens_per_s or 0.0

    def size(share: float) -> Size:
        return size_of(
            target.output_tokens_per_s,
            each,
            efficiency=share,
            headroom=target.headroom,
            cards_per_replica=baseline.cards,
        )

    discounted = tuple(map(size, SOURCES_EFFICIENCY))
    return FromBaseline(baseline, level, size(1.0), discounted, errors), {card: place_of_it}


def _placed(target: Target, option: Option, spares: int) -> Placement | NoPlaceError | None:
    if target.site is None:
        return None
    try:
        group = Group("chat", option.replicas + spares, option.candidate.tensor_parallel)
        return place([group], target.site)
    except NoPlaceError as error:
        return error
