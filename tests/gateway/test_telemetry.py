"""What is counted, and the page: it parses, its labels come of the file, and no client makes a series."""

from urllib.request import urlopen

import pytest
from failing_engine import MODEL, ask, in_flight
from gateway_at_work import eventually
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from kilocard.gateway.process import AtWork
from kilocard.gateway.telemetry import SECONDS, Histogram


@given(st.lists(st.floats(0, 1_000), max_size=30))
def test_a_histogram_counts_all_under_their_bounds(seen: list[float]) -> None:
    histogram = Histogram(SECONDS)
    for seconds in seen:
        histogram.observe(("a",), seconds)
    samples = histogram.family("x", "y", ("l",)).samples
    buckets = [it for it in samples if it.name == "x_bucket"]
    assert len(buckets) == (len(SECONDS) + 1 if seen else 0)
    for it in buckets:
        assert it.value == sum(seconds <= float(it.labels["le"]) for seconds in seen)
    assert sum(it.value for it in samples if it.name == "x_sum") == pytest.approx(sum(seen))


def page_of(gateway: AtWork) -> dict[str, Metric]:
    with urlopen(f"{gateway.about['metrics']}/metrics", timeout=10) as page:
        families = text_string_to_metric_families(page.read().decode())
        return {family.name.removeprefix("kilocard_gateway_"): family for family in families}


def counted(gateway: AtWork, name: str, **labels: str) -> float:
    samples = [it for it in page_of(gateway)[name].samples if not it.name.endswith("_created")]
    return sum(it.value for it in samples if labels.items() <= it.labels.items())


def test_each_request_is_counted_by_its_end(gateway: AtWork) -> None:
    before_it = {name: counted(gateway, "requests", status=name) for name in ("ok", "error", "refused")}
    tries = counted(gateway, "retries")
    ask(gateway, max_tokens=5)
    ask(gateway, fault="error event")
    ask(gateway, fault="500", fails=1)
    ask(gateway, fault="503")
    assert eventually(lambda: in_flight(gateway) == 0)
    after = {name: counted(gateway, "requests", status=name) - count for name, count in before_it.items()}
    assert after == {"ok": 2, "error": 1, "refused": 1}
    assert counted(gateway, "retries") - tries == 2
    assert counted(gateway, "replica_in_flight") == 0
    assert counted(gateway, "replica_state") == 2


def test_no_client_makes_a_series(gateway: AtWork) -> None:
    def series() -> set[str]:
        return {
            f"{sample.name}{sorted(sample.labels.items())}"
            for family in page_of(gateway).values()
            for sample in family.samples
            if sample.labels.get("model", MODEL) == MODEL or sample.value
        }

    ask(gateway, model="nobody")
    ask(gateway, headers={"X-Priority": "nobody"})
    ask(gateway, "/v1/nothing")
    known = series()
    for number in range(20):
        headers = {"X-Request-Id": f"id-{number}", "User-Agent": f"u{number}"}
        ask(gateway, model=f"no-{number}", headers=headers)
        ask(gateway, f"/v1/no-{number}", headers=headers)
        ask(gateway, headers={"X-Priority": f"no-{number}"})
    assert series() == known
    assert not any("no-" in name for name in known)
