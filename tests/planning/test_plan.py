"""A plan from a target and a baseline: its numbers, its report, its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kilocard.errors import KilocardError
from kilocard.planning.baseline import Baseline, Level, read_baseline
from kilocard.planning.files import write_plan
from kilocard.planning.page import Section, as_html, as_markdown
from kilocard.planning.placement import NoPlaceError, Placement
from kilocard.planning.plan import Plan, make_plan
from kilocard.record import Kind
from kilocard.specs.cluster import read_cluster
from kilocard.specs.slo import SLO
from kilocard.specs.target import read_target

DATA = Path(__file__).parents[2] / "data"
SWEEP = DATA / "published" / "sweep_qwen27b_int4_k100ai.csv"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Of the sources' target, from their own sweep."""
    target = read_target(DATA / "targets" / "ten-thousand-tokens.yaml")
    return make_plan(target, read_baseline(SWEEP), tmp_path_factory.mktemp("plan"))


def test_the_sources_target_takes_what_their_own_discounts_say_and_not_a_thousand(plan: Plan) -> None:
    learnt = plan.from_baseline
    assert learnt is not None
    assert learnt.ideal.ideal == 91
    assert [size.with_headroom for size in learnt.discounted] == [190, 143]
    assert 114 <= plan.option.cards <= 190
    assert plan.option.candidate.max_num_seqs <= 8
    assert plan.cards < 250


def test_the_waterfall_falls_from_the_ideal_to_what_is_planned(plan: Plan) -> None:
    for before, after in zip(plan.falls, plan.falls[1:], strict=False):
        assert after.tokens_per_s == pytest.approx(before.tokens_per_s * after.share)
    assert plan.falls[-1].tokens_per_s < 0.85 * plan.falls[0].tokens_per_s


def test_stages_grow_and_none_asks_for_more_than_the_promise(plan: Plan) -> None:
    sizes = [stage.replicas for stage in plan.stages]
    assert sizes == [1, 8, 64, plan.option.replicas]
    for stage in plan.stages:
        assert stage.ttft_p99_s is not None and stage.ttft_p99_s <= 5
        assert stage.tpot_p99_s is not None and stage.tpot_p99_s <= 0.09


def test_it_stands_in_the_building(plan: Plan) -> None:
    assert isinstance(plan.placement, Placement)
    assert len(plan.placement.placed) == plan.replicas
    assert plan.placement.worst("rack") <= 0.1


def test_its_files_can_be_read_and_served(plan: Plan, tmp_path: Path) -> None:
    names = {path.name for path in write_plan(plan, tmp_path)}
    assert names == {"report.md", "report.html", "plan.json", "cluster.yaml", "placement.csv"}
    spec = read_cluster(tmp_path / "cluster.yaml")
    assert spec.pools[0].count == plan.replicas
    told = json.loads((tmp_path / "plan.json").read_text())
    assert told["cards"] == plan.cards
    assert told["kind"] == "simulated"
    report = (tmp_path / "report.md").read_text()
    assert f"{plan.cards} cards (k100-ai)" in report
    assert "11 times as much" in report
    for kind in ("published", "simulated", "derived", "yours", "assumed"):
        assert kind in report
    page = (tmp_path / "report.html").read_text()
    assert page.count("<table>") == page.count("</table>") >= 6
    assert "http" not in page.replace("https://", "http").split("<body>")[0]


def test_a_plan_without_room_says_which_rule(tmp_path: Path) -> None:
    target = read_target(DATA / "targets" / "ten-thousand-tokens.yaml")
    site = target.site.model_copy(update={"nodes": 10, "racks": 2, "switches": 2, "power_domains": 1})  # type: ignore[union-attr]
    made = make_plan(target.model_copy(update={"site": site}), read_baseline(SWEEP), tmp_path)
    assert isinstance(made.placement, NoPlaceError)
    assert "cards are asked for and 80 are there" in (
        as_markdown("t", [Section("x", (str(made.placement),))])
    )


def test_a_baseline_of_another_model_is_refused(tmp_path: Path) -> None:
    target = read_target(DATA / "targets" / "ten-thousand-tokens.yaml")
    other = Baseline((Level(1, 0.02, 45.0),), Kind.MEASURED, "a run", model="qwen3-8b", card="h100-sxm")
    with pytest.raises(
        KilocardError, match=r"the baseline is of qwen3-8b and the target asks for qwen3\.5-27b"
    ):
        make_plan(target, other, tmp_path)


def test_a_baseline_tells_its_best_level_within_the_promise() -> None:
    told = read_baseline(SWEEP)
    assert [level.concurrency for level in told.levels] == [1, 4, 8]
    assert told.best_within(SLO(tpot_p99_s=0.09)).output_tokens_per_s == 110
    assert told.best_within(SLO(tpot_p99_s=0.03)).output_tokens_per_s == 45
    with pytest.raises(KilocardError, match="the fastest takes 22 ms a token"):
        told.best_within(SLO(tpot_p99_s=0.01))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", "needs the columns concurrency"),
        ("concurrency,tpot_ms,output_tokens_per_s\nx,1,2\n", "give numbers"),
        ("concurrency,tpot_ms,output_tokens_per_s\n0,1,2\n", "concurrency 0: give a number above 0"),
        ("concurrency,tpot_ms,output_tokens_per_s\n1,nan,2\n", "tpot_s nan"),
        ("", "no table of a sweep"),
    ],
)
def test_tables_that_are_none_are_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(KilocardError, match=told):
        read_baseline(path)


def test_a_page_escapes_what_it_is_told() -> None:
    sections = [Section("<b>", ("a < b",), (("x", "y"), ("1|2", "<script>")), ("p",), (0.5,))]
    page, text = as_html("<t>", sections), as_markdown("<t>", sections)
    assert "<script>" not in page and "<b>" not in page
    assert "<script>" not in text
    assert "1\\|2" in text
    assert "width:50.0%" in page


def told_of(**changes: Any) -> Level:
    return Level(**{"concurrency": 1, "tpot_s": 0.02, "output_tokens_per_s": 45.0, **changes})


def test_levels_have_numbers() -> None:
    for changes in ({"concurrency": 0}, {"tpot_s": -1}, {"output_tokens_per_s": float("inf")}):
        with pytest.raises(KilocardError, match="give a number above 0"):
            told_of(**changes)
