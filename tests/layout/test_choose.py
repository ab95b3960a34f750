"""Copy or cut: the public cases of the field, and the rule's laws."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.sharding import valid_tensor_parallel
from kilocard.layout import Choice, Judge, Load, Needs, choose_layout
from kilocard.parallel import Layout
from kilocard.specs.interconnect import Interconnect

CHAT = Load(1536, 512)
SMALL = ("llama-2-7b", "qwen2.5-7b", "llama-3.1-8b", "qwen3-8b", "qwen3-14b", "mistral-nemo")
CARDS = ("a100-sxm-80gb", "h100-sxm", "h100-pcie", "h200-sxm", "b200-sxm", "l40s", "rtx-4090", "mi300x")


def choice(
    model: str, card: str, weights: str = "bf16", needs: Needs | None = None, **more: object
) -> Choice:
    judge = Judge(facts.model(model), facts.card(card), CHAT, weights=weights)
    return choose_layout(judge, needs, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("model", SMALL)
def test_a_small_model_that_fits_is_never_cut(model: str, card: str) -> None:
    found = choice(model, card)
    single = next((one for one in found.rejected if one.layout == Layout()), None)
    assert found.fits
    if single is None:
        assert found.layout == Layout(1, 1, 8)
    else:
        assert "does not fit" in single.reason or "are needed" in single.reason
        assert facts.model(model).published_parameters_b * 2 > facts.card(card).memory_gb * 0.75  # type: ignore[operator]


@pytest.mark.parametrize(
    ("model", "card", "weights", "degree"),
    [
        ("llama-3.1-70b", "h100-sxm", "fp8", 2),
        ("llama-3.1-70b", "h100-sxm", "bf16", 4),
        ("llama-3.1-70b", "a100-sxm-80gb", "int8", 2),
        ("llama-3.1-70b", "h200-sxm", "fp8", 1),
        ("llama-3.1-70b", "mi300x", "bf16", 1),
        ("llama-3.1-70b", "l40s", "bf16", 4),
        ("llama-2-70b", "a100-sxm-80gb", "bf16", 4),
        ("mixtral-8x7b", "h100-sxm", "bf16", 2),
        ("qwen3-30b-a3b", "h100-sxm", "bf16", 1),
        ("qwen3.8-27b", "k100-ai", "int4", 1),
        ("bloom-176b", "a100-sxm-80gb", "bf16", 8),
        ("qwen3-32b", "l40s", "fp8", 1),
    ],
)
def test_the_public_cases_of_the_field(model: str, card: str, weights: str, degree: int) -> None:
    found = choice(model, card, weights)
    assert found.fits
    assert found.layout == Layout(degree, 1, 8 // degree)


def test_what_no_machine_holds_is_cut_by_layers_between_machines() -> None:
    found = choice("deepseek-v3", "h100-sxm", "fp8")
    assert found.fits and found.layout == Layout(8, 2, 1)
    assert any("one that fails takes the replica with it" in warning for warning in found.warnings)
    across = next(one for one in found.rejected if one.layout.tensor_parallel == 16)
    assert "spans 2 machines" in across.reason and "over ethernet-10g" in across.reason


def test_a_group_that_leaves_its_machine_is_warned_of_with_its_cost() -> None:
    found = choice("llama-3.1-70b", "h100-sxm", "fp8", wanted=Layout(16))
    assert found.layout.tensor_parallel == 16
    assert any("spans 2 machines" in text and "ms over rdma-400g" in text for text in found.warnings)
    slow = Judge(
        facts.model("llama-3.1-70b"),
        facts.card("h100-sxm"),
        CHAT,
        Interconnect(network="ethernet-10g"),
        "fp8",
    )
    assert slow.judged(Layout(16), 8).alone.tpot_s > found.candidate.alone.tpot_s  # type: ignore[union-attr]


def test_a_degree_that_does_not_divide_the_heads_is_rejected_with_its_reason() -> None:
    found = choice("smollm2-135m", "h100-sxm")
    told = {one.layout.tensor_parallel: one.reason for one in found.rejected}
    assert all("does not divide the 9 attention heads" in told[degree] for degree in (2, 4, 8))
    with pytest.raises(KilocardError, match="does not divide the 64 attention heads"):
        choice("llama-3.1-70b", "h100-sxm", wanted=Layout(6))


@given(
    st.sampled_from(sorted(facts.models())),
    st.sampled_from(CARDS),
    st.sampled_from(["bf16", "fp8", "int4"]),
    st.sampled_from([1, 2, 3, 4, 6, 8]),
)
@settings(max_examples=40, deadline=None)
def test_only_what_can_be_cut_is_proposed(model: str, card: str, weights: str, per_node: int) -> None:
    judge = Judge(
        facts.model(model), facts.card(card), CHAT, Interconnect(cards_per_node=per_node), weights=weights
    )
    found = choose_layout(judge)
    assert found.layout.tensor_parallel in valid_tensor_parallel(facts.model(model))
    assert found.layout.tensor_parallel <= per_node
    nodes = -(-found.layout.cards // per_node)
    assert found.layout.cards <= nodes * per_node
    if found.fits:
        assert found.candidate.holds >= Needs().concurrency
    assert all(one.reason for one in found.rejected)
    assert found.layout not in {one.layout for one in found.rejected}


@given(st.sampled_from(["llama-3.1-70b", "qwen3-32b", "mixtral-8x7b"]), st.integers(4, 64))
@settings(max_examples=20, deadline=None)
def test_asking_for_more_never_takes_fewer_cards(model: str, concurrency: int) -> None:
    fewer, more = (
        choice(model, "h100-sxm", needs=Needs(count)).layout.cards_per_replica
        for count in (concurrency, 2 * concurrency)
    )
    assert more >= fewer


def test_limits_take_a_larger_group_or_say_what_misses() -> None:
    quick = choice("llama-3.1-70b", "h100-sxm", "fp8", Needs(4, tpot_s=0.012))
    assert quick.layout.tensor_parallel == 4 and quick.candidate.speed is not None
    assert quick.candidate.speed.tpot_s <= 0.012
    never = choice("llama-3.1-8b", "h100-sxm", needs=Needs(4, tpot_s=0.0005))
    assert not never.fits and "misses 0.5 ms" in never.reason


def test_a_short_cache_is_told_where_a_cut_would_earn_more() -> None:
    found = choice("llama-3.1-8b", "rtx-4090")
    assert found.layout.tensor_parallel == 1
    assert any("its cache is short" in text for text in found.advice)


def test_fewer_bits_come_before_a_cut() -> None:
    found = choice("qwen3-14b", "rtx-4090")
    assert found.layout.tensor_parallel == 2
    assert found.advice[0] == "fp8 weights would fit on one card: try their quality before you cut"
    asked = choice("qwen2.5-7b", "l4", wanted=Layout(4))
    assert not any("would fit on one card" in text for text in asked.advice)  # it does as it is


def test_stages_that_earn_more_than_the_group_are_told() -> None:
    found = choice("llama-3.1-70b", "l40s", "fp8")
    assert found.layout == Layout(2, 1, found.layout.data_parallel)
    assert any("TP 1 × PP 4 would earn" in text for text in found.advice)
    fast = choice("llama-3.1-70b", "h100-sxm", "fp8")
    assert not any("would earn" in text for text in fast.advice)


def test_too_few_cards_are_named() -> None:
    found = choice("llama-3.1-70b", "h100-sxm", cards=2)
    assert not found.fits and "it takes 3 cards where there are 2" in found.reason
    found = choice("llama-3.1-8b", "h100-sxm", cards=3)
    assert found.fits and found.layout.data_parallel == 3


def test_cards_that_no_group_fills_are_cut_by_layers() -> None:
    assert choice("llama-3.1-70b", "h100-sxm", cards=3).layout == Layout(1, 3, 1)
    odd = Judge(facts.model("llama-3.1-70b"), facts.card("h100-sxm"), CHAT, Interconnect(cards_per_node=7))
    found = choose_layout(odd, cards=5)
    assert found.fits and found.layout == Layout(1, 3, 1)
    assert "no group inside a machine will do" in found.reason


def test_the_search_goes_on_until_what_is_needed_is_held() -> None:
    many = choice("llama-3.1-70b", "h100-sxm", needs=Needs(1500))
    assert many.fits and many.candidate.holds >= 1500
    assert many.flags[-2:] == ("--max-num-seqs", "1500")
    assert many.candidate.speed is not None and many.candidate.speed.concurrency >= 1500
    lone = Judge(
        facts.model("deepseek-v3"), facts.card("h100-sxm"), CHAT, Interconnect(cards_per_node=1), "bf16"
    )
    found = choose_layout(lone)
    assert found.fits and found.layout.pipeline_parallel > 16


def test_a_replica_that_fits_in_a_machine_never_straddles_two() -> None:
    judge = Judge(facts.model("qwen3-8b"), facts.card("h200-sxm"), CHAT, Interconnect(cards_per_node=6))
    assert choose_layout(judge, cards=12, wanted=Layout(4)).layout.data_parallel == 2
    assert choose_layout(judge, cards=16, wanted=Layout(4)).layout.data_parallel == 3


def test_the_nearest_is_the_one_that_lacks_least() -> None:
    judge = Judge(facts.model("qwen3-8b"), facts.card("h200-sxm"), CHAT)
    found = choose_layout(judge, Needs(1, tpot_s=0.001))
    speeds = [it.candidate.alone.tpot_s for it in found.rejected if it.candidate and it.candidate.alone]
    assert not found.fits and found.candidate.alone is not None
    assert found.candidate.alone.tpot_s <= min(speeds)


def test_a_budget_under_256_seats_caps_them_and_under_the_need_is_refused() -> None:
    judge = replace(Judge(facts.model("qwen3-8b"), facts.card("h200-sxm"), CHAT), max_num_batched_tokens=200)
    found = choose_layout(judge)
    assert found.candidate.speed is not None and found.candidate.speed.concurrency == 200
    with pytest.raises(KilocardError, match="a step of 200 tokens is too short for 300 requests"):
        choose_layout(judge, Needs(300))


@pytest.mark.parametrize("wanted", [Layout(4), Layout(8, 2), Layout(1, 3)])
def test_what_was_asked_for_is_said_to_be(wanted: Layout) -> None:
    found = choice("qwen3-8b", "h100-sxm", wanted=wanted)
    assert found.reason.startswith("as asked: ")
    assert not any("asked" in one.reason for one in found.rejected if one.layout.cards > wanted.cards)


def test_a_card_of_an_unknown_rate_is_still_laid_out_by_its_memory() -> None:
    found = choice("llama-3.1-8b", "ascend-910b")
    assert found.fits and found.layout == Layout(1, 1, 8) and found.candidate.speed is None
    assert any("memory_bandwidth_gb_per_s of ascend-910b is unknown" in text for text in found.warnings)
    limited = choice("llama-3.1-8b", "ascend-910b", needs=Needs(4, tpot_s=0.1))
    assert not limited.fits and "cannot be held against limits" in limited.reason


def test_experts_that_a_cut_makes_too_narrow_are_dealt_out_whole() -> None:
    judge = Judge(facts.model("qwen3-30b-a3b"), facts.card("l4"), CHAT, weights="fp8")
    found = choose_layout(judge, wanted=Layout(8))
    assert any("no multiple of a scale's 128" in text for text in found.warnings)
    assert any("--enable-expert-parallel" in text for text in found.advice)


def test_a_faster_network_makes_a_spread_group_cheaper() -> None:
    base = Judge(facts.model("llama-3.1-70b"), facts.card("h100-sxm"), CHAT, weights="fp8")
    times = [
        replace(base, interconnect=Interconnect(network=name)).wires_s(Layout(16), 2048)
        for name in ("rdma-400g", "rdma-200g", "ethernet-100g", "ethernet-25g", "ethernet-10g")
    ]
    assert times == sorted(times)


@pytest.mark.parametrize(("needs", "cards"), [((0,), None), ((10**7,), None), ((4,), 0)])
def test_needs_out_of_range_are_refused(needs: tuple[int], cards: int | None) -> None:
    with pytest.raises(KilocardError, match="give 1 to 1,000,000"):
        choice("llama-3.1-8b", "h100-sxm", needs=Needs(*needs), cards=cards)
