"""Two emulated engines for the tests that only ask."""

from collections.abc import Iterator

import pytest
from emulator_client import case_of

from kilocard.emulator import Emulated, Faults, emulated


@pytest.fixture(scope="session")
def two_engines() -> Iterator[Emulated]:
    """Two engines, twenty times as fast."""
    with emulated(case_of(replicas=2), speed=20) as running:
        yield running


@pytest.fixture
def engines(two_engines: Emulated) -> Iterator[Emulated]:
    """The same, without any fault again after a test that broke off with one."""
    yield two_engines
    for number in range(2):
        two_engines.fault(number, through=1 - number, **Faults().model_dump(exclude={"start_s"}))
