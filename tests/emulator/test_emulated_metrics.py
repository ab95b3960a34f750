"""The metrics page has vLLM's series, and they tell what happened."""

from emulator_client import MODEL, ask, case_of
from prometheus_client.parser import text_string_to_metric_families

from kilocard.emulator import Emulated, emulated
from kilocard.launch.metrics import read_metrics

NAMES = {
    *(
        "num_requests_running",
        "num_requests_waiting",
        "num_requests_waiting_by_reason",
        "kv_cache_usage_perc",
    ),
    *(
        "num_preemptions_total",
        "prefix_cache_queries_total",
        "prefix_cache_hits_total",
        "prompt_tokens_total",
    ),
    *("prompt_tokens_cached_total", "generation_tokens_total", "request_success_total", "cache_config_info"),
    "admission_rejections_total",
}
HISTOGRAMS = {
    *("time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds"),
    *("e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds"),
    *("request_decode_time_seconds", "request_inference_time_seconds", "request_prompt_tokens"),
    *("request_generation_tokens", "iteration_tokens_total"),
}


def test_all_series_are_there_with_their_labels(engines: Emulated) -> None:
    answer = ask(engines.url, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        sample.name.removeprefix("vllm:"): sample
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }
    assert samples.keys() >= NAMES
    assert samples.keys() >= {f"{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "count", "sum")}
    labels = {name: sample.labels for name, sample in samples.items() if name != "cache_config_info"}
    assert {told["model_name"] for told in labels.values()} == {MODEL}


def test_counts_are_what_was_asked() -> None:
    prompt = [*range(2000, 2064)]
    with emulated(case_of(), speed=20, served_model_name='a "name"') as engines:
        for _ in range(3):
            ask(engines.url, "/v1/completions", {"prompt": prompt, "max_tokens": 10})
        ask(engines.url, "/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 55}]})
        seen = read_metrics(engines.url)
        page = ask(engines.url, "/metrics").content.decode()
    assert (seen.running, seen.waiting, seen.preemptions, seen.kv_used_ratio) == (0, 0, 0, 0.0)
    chat = -(-(55 + len("<|user|><|assistant|>")) // 4)
    assert seen.prompt_tokens == 3 * 64 + chat
    assert seen.generation_tokens == 30 + 256
    assert seen.cached_prompt_tokens == seen.prefix_hits == 2 * 48
    assert seen.finished == 4
    assert (seen.kv_blocks, seen.kv_block_tokens) == (engines.about["kv_blocks"] + 1, 16)
    values = {
        (sample.name, sample.labels.get("le"), sample.labels.get("finished_reason")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert values["vllm:request_success_total", None, "length"] == 3
    assert values["vllm:request_success_total", None, "stop"] == 1
    assert values["vllm:inter_token_latency_seconds_count", None, None] == 3 * 9 + 255
    assert values["vllm:time_to_first_token_seconds_count", None, None] == 4
    assert values["vllm:request_prompt_tokens_bucket", "50.0", None] == 1
    assert 0.005 < values["vllm:request_time_per_output_token_seconds_sum", None, None] / 4 < 0.02
