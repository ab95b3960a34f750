"""The fit of a prompt's cost, and the prompts of runs."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kilocard.engine_model.step_time import StepTime
from kilocard.errors import KilocardError
from kilocard.fleet.in_turn import Prompt, ask_in_turn
from kilocard.launch import EngineMetrics
from kilocard.load.target import DEFAULT_VOCABULARY
from kilocard.notebook import prefix_cache as room
from kilocard.notebook.prefix_cache import (
    STEP_TOKENS,
    card_step,
    first_ttft_s,
    later_cached,
    later_ttft_s,
    predict,
    predicted_curve,
    prompt_step,
    prompts_of,
    saved_percent,
)
from kilocard.record import Run
from kilocard.specs import EngineSpec
from kilocard.specs.case import EngineSettings
from kilocard.workload import Fixed, SharedPrefix, Workload

TRUE = StepTime(0.0004 * np.arange(STEP_TOKENS + 1), 0.0, 0.0, prefill_step_s=0.05, pair_s=3e-7)


def served(tokens: int, shared: int = 0, requests: int = 3, step: StepTime = TRUE) -> Run:
    engine = EngineSettings(max_num_batched_tokens=8192, block_size=128, kv_blocks=1000)
    prompts = [Prompt(tokens, 0, shared)] * requests
    return ask_in_turn(prompts, engine, step, model="smollm2-135m", source="a test")


def test_the_fit_finds_the_cost_that_made_the_runs() -> None:
    found = prompt_step([served(tokens) for tokens in (128, 512, 1500)])
    assert found.prefill_step_s == pytest.approx(TRUE.prefill_step_s, rel=1e-3)
    assert found.tokens_s[1000] == pytest.approx(TRUE.tokens_s[1000], rel=1e-3)
    assert found.pair_s == pytest.approx(TRUE.pair_s, rel=1e-3)


def test_no_part_of_the_cost_is_negative() -> None:
    sublinear = [served(tokens, step=replace(TRUE, pair_s=0.0)) for tokens in (128, 512, 1500)]
    slow = replace(
        sublinear[0], requests=sublinear[0].requests.assign(first_token_s=lambda t: t.first_token_s + 0.2)
    )
    found = prompt_step([slow, *sublinear[1:]])
    assert min(found.prefill_step_s, found.pair_s, float(found.tokens_s[1])) >= 0


def test_the_first_request_pays_and_the_later_ones_find() -> None:
    run = served(1500, 1425)
    assert first_ttft_s(run) > 5 * later_ttft_s(run)
    assert later_cached(run) == 1408


def test_what_is_saved_is_measured_against_the_first_requests_of_its_time() -> None:
    slow = replace(TRUE, tokens_s=2 * TRUE.tokens_s, prefill_step_s=0.1, pair_s=6e-7)
    groups = [served(1500, 1425)] * 3 + [served(1500, 1425, step=slow)] * 3
    usual = 100 * (1 - later_ttft_s(groups[0]) / first_ttft_s(groups[0]))
    assert saved_percent(groups) == pytest.approx([usual] * 6)


def test_runs_are_prompts_in_their_order_and_share_by_seed() -> None:
    def of_seed(seed: int, shared: int) -> Run:
        run = served(1500, shared, requests=2)
        prefix = {"tokens": shared, "groups": 1} if shared else None
        return replace(run, stamp=replace(run.stamp, seed=seed, workload={"shared_prefix": prefix}))

    assert (
        prompts_of([of_seed(7, 640), of_seed(8, 0)]) == [Prompt(1500, 7, 640)] * 2 + [Prompt(1500, 8, 0)] * 2
    )


def test_a_curve_goes_down_by_whole_blocks() -> None:
    curve = predicted_curve("smollm2-135m", 1500, [0, 127, 128, 255, 1425], TRUE, 128)
    cold, warm = zip(*curve, strict=True)
    assert max(cold) == pytest.approx(min(cold))
    assert warm[:2] == pytest.approx([warm[0]] * 2)
    assert warm[2:4] == pytest.approx([warm[2]] * 2)
    assert warm[0] > warm[2] > warm[4]


def test_a_card_of_the_catalogue_has_a_step_too() -> None:
    step, name = card_step("qwen3-8b", "h100-sxm")
    assert name == "h100-sxm"
    assert 0.01 < step.step_s(1500, 0, 1, 1500 * 1501 / 2) < 0.2


def test_the_fit_takes_first_requests_alone() -> None:
    warm_too = [served(tokens, shared=tokens) for tokens in (128, 512, 1500)]
    assert prompt_step(warm_too).tokens_s[1000] == pytest.approx(TRUE.tokens_s[1000], rel=1e-3)


def asked_on(run: Run, seed: int, shared: int) -> Run:
    workload = {"shared_prefix": {"tokens": shared, "groups": 1}}
    return replace(run, stamp=replace(run.stamp, seed=seed, workload=workload))


def test_asked_again_begins_as_the_group_did_and_goes_on_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, list[int]] = {}
    monkeypatch.setattr(room, "send_one", lambda url, model, **options: sent.update(options))
    room.ask_again(SimpleNamespace(url="", model=""), asked_on(served(1500, 640), 7, 640))
    load = Workload(1, Fixed(1500), Fixed(1), prefix=SharedPrefix(640), seed=7)
    first = load.draw(0)[0].prompt_ids(DEFAULT_VOCABULARY)
    assert len(sent["prompt"]) == 1500
    assert sent["prompt"][:640] == first[:640]
    assert sent["prompt"][640:656] != first[640:656]


def test_the_model_has_the_engines_blocks_less_the_one_for_padding() -> None:
    config = {"num_gpu_blocks": "25", "block_size": "128"}
    engine = SimpleNamespace(metrics=lambda: EngineMetrics(cache_config=config), spec=EngineSpec())
    two, three = ([Prompt(1024, stream, 1024) for stream in range(count)] * 2 for count in (3, 4))
    assert predict(engine, two, TRUE).requests["cached_tokens"].tolist()[3:] == [896] * 3
    assert predict(engine, three, TRUE).requests["cached_tokens"].tolist()[4:] == [0] * 4


def test_every_asking_is_of_new_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def swept(url: str, model: str, **options: Any) -> Run:
        seeds.append(options["seed"])
        return served(100, 50)

    monkeypatch.setattr(room, "sweep", swept)
    engine = SimpleNamespace(url="", model="", stamp_fields=dict)
    for _ in range(5):
        room.ask(engine, 100, 50)
    assert len(set(seeds)) == 5


def test_an_engine_that_tells_no_cached_tokens_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = served(100)
    silent = replace(run, requests=run.requests.assign(cached_tokens=pd.NA))
    monkeypatch.setattr(room, "sweep", lambda url, model, **options: silent)
    with pytest.raises(KilocardError, match="--enable-prompt-tokens-details"):
        room.ask(SimpleNamespace(url="http://there", model="", stamp_fields=dict), 100)
