"""What an engine says of itself, typed, whatever its names are."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launch_fakes import SPEC, Fake, eventually

from kilocard.errors import KilocardError
from kilocard.launch import launch, read_metrics, sample
from kilocard.launch.metrics import EngineMetrics, parse_metrics
from kilocard.record import SAMPLE_COLUMNS, typed

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="smollm2"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="smollm2"} 2.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="smollm2",reason="capacity"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="smollm2"} 0.25
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="smollm2"} 1.0
# TYPE vllm:num_preemptions_created gauge
vllm:num_preemptions_created{engine="0",model_name="smollm2"} 1.795e+09
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="smollm2"} 200.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="smollm2"} 50.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="smollm2"} 200.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="smollm2"} 64.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="smollm2"} 4.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="smollm2"} 5.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",engine="0",num_cpu_blocks="None",num_gpu_blocks="364"} 1.0
"""


def test_a_page_becomes_typed_values() -> None:
    seen = parse_metrics(PAGE)
    assert (seen.running, seen.waiting, seen.kv_used_ratio, seen.preemptions) == (3, 2, 0.25, 1)
    assert (seen.prompt_tokens, seen.generation_tokens, seen.finished) == (200, 64, 9)
    assert seen.prefix_hit_ratio == 0.25
    assert (seen.kv_blocks, seen.kv_block_tokens, seen.kv_tokens) == (364, 128, 46592)
    assert seen.cached_prompt_tokens is None


def test_older_names_and_underscores_are_understood() -> None:
    page = PAGE.replace("kv_cache_usage_perc", "gpu_cache_usage_perc").replace("vllm:", "vllm_")
    seen = parse_metrics(page)
    assert (seen.running, seen.kv_used_ratio, seen.kv_tokens) == (3, 0.25, 46592)


def test_what_a_version_does_not_say_is_null_not_zero() -> None:
    assert parse_metrics("") == EngineMetrics()
    assert EngineMetrics().prefix_hit_ratio is None
    assert EngineMetrics().kv_tokens is None


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0, 1)), min_size=1, max_size=8))
def test_engines_behind_one_page_are_added_up(engines: list[tuple[int, float]]) -> None:
    lines = [
        f'vllm:num_requests_running{{e="{n}"}} {running}\nvllm:kv_cache_usage_perc{{e="{n}"}} {used}'
        for n, (running, used) in enumerate(engines)
    ]
    seen = parse_metrics("\n".join(lines) + "\n")
    assert seen.running == sum(running for running, _ in engines)
    assert seen.kv_used_ratio == pytest.approx(sum(used for _, used in engines) / len(engines))


def test_samples_are_rows_of_the_request_tables_kind(fake: Fake) -> None:
    with launch(SPEC, command=fake.command) as engine, sample(engine.url, 0.02, replica="r1") as rows:
        assert eventually(lambda: len(rows) >= 3)
    count = len(rows)
    frame = typed(rows, SAMPLE_COLUMNS)
    assert frame["running"].tolist() == [3] * count
    assert frame["waiting"].isna().all()
    assert frame["t_s"].is_monotonic_increasing
    time.sleep(0.1)
    assert len(rows) == count


def test_a_look_that_fails_gives_no_row() -> None:
    with sample("http://127.0.0.1:9", 0.01) as rows:
        time.sleep(0.1)
    assert rows == []


def test_bad_addresses_and_intervals_are_refused() -> None:
    with pytest.raises(KilocardError, match="gives no metrics"):
        read_metrics("http://127.0.0.1:9")
    with pytest.raises(KilocardError, match="every_s must be above 0"), sample("http://127.0.0.1:9", 0):
        pass
