"""A gateway in a process of its own, before two servers that play engines."""

import json
import urllib.request
from collections.abc import Iterator

import pytest

from kilocard.errors import KilocardError
from kilocard.gateway.process import AtWork, gateway_over
from kilocard.load import sweep
from kilocard.load.truth_process import truth_server
from kilocard.load.truth_script import Script


@pytest.fixture(scope="module")
def gateway() -> Iterator[AtWork]:
    script = Script(ttft_s=0.01, tpot_s=0.002)
    with truth_server(script) as one, truth_server(script) as two:
        replicas = [{"url": one.url, "node": "n1", "version": "v1"}, {"url": two.url, "node": "n2"}]
        pool = {"name": "chat", "cap": 4, "replicas": replicas}
        with gateway_over({"name": "t", "model": "truth", "pools": [pool]}) as running:
            yield running


def test_a_sweep_through_it_is_answered_and_told_by_node(gateway: AtWork) -> None:
    run = sweep(
        gateway.url, "truth", concurrency=[12], requests_per_level=60, prompt_tokens=8, output_tokens=8
    )
    assert (run.requests["status"] == "ok").all()
    assert set(run.requests["node"]) == {"n1", "n2"}
    assert set(run.requests["output_tokens"]) == {8}
    rows = gateway.replicas()
    assert [row["in_flight"] for row in rows] == [0, 0]
    assert sum(row["served"] for row in rows) >= 60


def test_an_unknown_model_is_refused_with_those_that_are_known(gateway: AtWork) -> None:
    body = json.dumps({"model": "other", "prompt": "a"}).encode()
    asked = urllib.request.Request(
        f"{gateway.url}/v1/completions", body, {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked, timeout=10)
    assert refused.value.code == 404
    assert "use truth" in json.load(refused.value)["error"]["message"]


def test_a_drained_replica_gets_nothing_until_it_is_resumed(gateway: AtWork) -> None:
    drained = gateway.replicas()[0]["id"]
    gateway.order("/drain", id=drained)
    run = sweep(
        gateway.url, "truth", concurrency=[4], requests_per_level=20, prompt_tokens=8, output_tokens=4
    )
    gateway.order("/resume", id=drained)
    assert (run.requests["status"] == "ok").all()
    assert drained not in set(run.requests["replica"])


def test_orders_of_no_sense_are_refused_in_one_line(gateway: AtWork) -> None:
    with pytest.raises(KilocardError, match="no replica is called nobody"):
        gateway.order("/drain", id="nobody")
    with pytest.raises(KilocardError, match="is not from 0 to 1"):
        gateway.order("/weight", id=gateway.replicas()[0]["id"], weight=7)


def test_a_file_that_is_no_cluster_changes_nothing(gateway: AtWork) -> None:
    before, text = gateway.replicas(), gateway.path.read_text()
    with pytest.raises(KilocardError, match="pools"):
        gateway.reload({"name": "t", "model": "truth"})
    gateway.path.write_text(text)
    assert [row["id"] for row in gateway.replicas()] == [row["id"] for row in before]
    gateway.order("/reload")


def test_a_log_that_cannot_be_written_is_one_line() -> None:
    gateway = {"access_log": {"path": "/proc/none.log"}}
    pools = [{"name": "a", "replicas": ["http://127.0.0.1:9"]}]
    cluster = {"name": "t", "model": "m", "pools": pools, "gateway": gateway}
    with (
        pytest.raises(KilocardError, match=r"cannot write the access log /proc/none.log: .*access_log.path"),
        gateway_over(cluster, awaits_models=False),
    ):
        pass


def test_one_that_cannot_listen_says_so() -> None:
    cluster = {"name": "t", "model": "m", "pools": [{"name": "a", "replicas": ["http://127.0.0.1:9"]}]}
    with gateway_over(cluster, awaits_models=False) as first:
        port = int(first.url.rpartition(":")[2])
        with (
            pytest.raises(KilocardError, match="cannot listen"),
            gateway_over({**cluster, "gateway": {"port": port}}, awaits_models=False),
        ):
            pass
