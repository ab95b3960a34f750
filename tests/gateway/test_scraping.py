"""How full an engine's KV cache is: read from its page, told to the operator, forgotten when it is old."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest
import yaml
from failing_engine import FailingEngine, ask, before, failing_engines
from gateway_at_work import eventually
from hypothesis import given
from hypothesis import strategies as st

from kilocard.emulator import emulated
from kilocard.gateway.process import AtWork, gateway_over
from kilocard.gateway.scraping import MOST_PER_S, Scraping, kv_used
from kilocard.launch.metrics import parse_metrics
from kilocard.specs import case_from

CASE = case_from({
    "model": "qwen3-8b", "card": "h100-sxm", "engine": {"kv_blocks": 100},
    "workload": {"requests": 1, "rate_per_s": 1, "prompt_tokens": 1, "output_tokens": 1},
})  # fmt: skip
JSON = {"Content-Type": "application/json"}
SOON = {"metrics_every_s": 0.2}

label = st.text(st.characters(codec="ascii", exclude_characters='"\\\n'), max_size=12)


def page(*used: float, name: str = "vllm:kv_cache_usage_perc", labels: str = 'engine="0"') -> str:
    rows = "".join(f"{name}{{{labels}}} {it!r}\n" for it in used)
    return f"# HELP {name} KV-cache usage. 1 means 100 percent usage.\n# TYPE {name} gauge\n{rows}other 3\n"


def kv_free(gateway: AtWork, engine: FailingEngine) -> float | None:
    free: float | None = next(row["kv_free"] for row in gateway.replicas() if row["id"] == engine.id)
    return free


@contextmanager
def one_engine(metrics: str) -> Iterator[tuple[AtWork, FailingEngine]]:
    with failing_engines(1) as (engine,):
        engine.metrics = metrics
        with before([engine], health=SOON) as gateway:
            yield gateway, engine


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), label)
def test_a_page_is_read_as_a_whole_parser_reads_it(used: list[float], model: str) -> None:
    text = page(*used, labels=f'engine="0",model_name="{model}"')
    assert kv_used(text.encode()) == pytest.approx(parse_metrics(text).kv_used_ratio)


def test_a_new_name_goes_before_an_old_one() -> None:
    old = page(0.9, name="vllm:gpu_cache_usage_perc")
    assert kv_used(old.encode()) == 0.9
    assert kv_used((old + page(0.25)).encode()) == 0.25
    assert kv_used(b"vllm_kv_cache_usage_perc 0.5 1700000000000\n") == 0.5


@pytest.mark.parametrize("told", ["", page(), page(1.5), page(-0.1), page(float("nan")), "{}", "a\0b"])
def test_what_tells_nothing_is_unknown(told: str) -> None:
    assert kv_used(told.encode()) is None


@given(st.binary(max_size=200), st.binary(max_size=40))
def test_no_page_breaks_it(noise: bytes, value: bytes) -> None:
    used = kv_used(noise + b"\nvllm:kv_cache_usage_perc " + value + noise)
    assert used is None or 0 <= used <= 1


@given(st.integers(1, 5_000), st.floats(0.1, 3600))
def test_many_replicas_are_read_less_often(members: int, every_s: float) -> None:
    period_s = Scraping(placing=None, every_s=every_s)._period_s(members)  # type: ignore[arg-type]
    assert period_s >= every_s
    assert members / period_s <= MOST_PER_S * (1 + 1e-9)


def test_an_emulated_engine_has_less_free_while_it_holds_a_request() -> None:
    with emulated(CASE) as engines:
        pools = [{"name": "p", "replicas": engines.urls}]
        told = {"name": "t", "model": engines.model, "pools": pools, "gateway": {"health": SOON}}
        with gateway_over(told) as gateway:
            assert eventually(lambda: gateway.replicas()[0]["kv_free"] == 1.0)
            client = HTTPConnection(gateway.url.removeprefix("http://"), timeout=30)
            asked = {"model": engines.model, "prompt": "word " * 400, "max_tokens": 1_000, "stream": True}
            client.request("POST", "/v1/completions", json.dumps(asked), JSON)
            assert eventually(lambda: gateway.replicas()[0]["kv_free"] < 0.9)
            client.close()
            assert eventually(lambda: gateway.replicas()[0]["kv_free"] == 1.0)


def test_what_is_old_is_forgotten_and_learnt_anew() -> None:
    with one_engine(page(0.75, 0.25)) as (gateway, engine):
        assert eventually(lambda: kv_free(gateway, engine) == 0.5)
        engine.metrics = "flood"
        assert eventually(lambda: kv_free(gateway, engine) is None)
        engine.metrics = page(0.125)
        assert eventually(lambda: kv_free(gateway, engine) == 0.875)
        engine.metrics = "hang"
        assert eventually(lambda: kv_free(gateway, engine) is None)
        assert ask(gateway).status == 200


def test_it_is_turned_off_by_a_reload() -> None:
    with one_engine(page(0.5)) as (gateway, engine):
        assert eventually(lambda: kv_free(gateway, engine) == 0.5)
        cluster = yaml.safe_load(gateway.path.read_text())
        cluster["gateway"]["health"]["metrics_every_s"] = 0
        gateway.reload(cluster)
        assert eventually(lambda: kv_free(gateway, engine) is None)
