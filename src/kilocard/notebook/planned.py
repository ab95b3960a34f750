"""Plans for the chapters of Part 5: the targets that are shipped, and what they come to."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from kilocard.layout import Judge
from kilocard.notebook.records import PUBLISHED, ROOT
from kilocard.planning.baseline import Baseline, read_baseline
from kilocard.planning.calibrating import calibrated
from kilocard.planning.candidate import judge_of
from kilocard.planning.plan import Plan, make_plan
from kilocard.specs.interconnect import Interconnect
from kilocard.specs.target import Target, read_target


def shipped_target(name: str) -> Target:
    """One of `data/targets`."""
    return read_target(ROOT / "data" / "targets" / f"{name}.yaml")


def sources_sweep() -> Baseline:
    """What the first article measured of one card."""
    return read_baseline(PUBLISHED / "sweep_qwen27b_int4_k100ai.csv")


def judge_fitted(
    target: Target, baseline: Baseline, link: str | None = None
) -> tuple[Judge, tuple[float, ...]]:
    """Whoever judges layouts of the target's card by its baseline, over that link, and how far the fit is
    off at each level."""
    plain = judge_of(target, target.cards[0].card, target.weights[0])
    found, errors = calibrated(baseline, plain, baseline.best_within(target.slo))
    return replace(plain, fitted=found, interconnect=Interconnect(link=link)), errors


def planned(target: Target, baseline: Baseline | None = None) -> Plan:
    """A plan whose files nobody keeps."""
    with tempfile.TemporaryDirectory(prefix="kilocard-plan-") as folder:
        return make_plan(target, baseline, Path(folder))
