"""Two engines that fail as a request says, and a gateway before them that forgives: one for each module."""

from collections.abc import Iterator

import pytest
from failing_engine import FailingEngine, before, failing_engines
from gateway_at_work import eventually

from kilocard.gateway.process import AtWork


@pytest.fixture(scope="module")
def engines() -> Iterator[list[FailingEngine]]:
    with failing_engines(2) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(engines: list[FailingEngine]) -> Iterator[AtWork]:
    with before(engines, health={"failures": 100}) as running:
        assert eventually(lambda: all(row["share"] > 0 for row in running.replicas()))
        yield running
