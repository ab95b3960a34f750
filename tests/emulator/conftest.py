"""Two emulated engines for the tests that only ask."""

from collections.abc import Iterator

import pytest
from emulator_client import case_of

from kilocard.emulator import Emulated, emulated


@pytest.fixture(scope="session")
def engines() -> Iterator[Emulated]:
    """Two engines, twenty times as fast."""
    with emulated(case_of(replicas=2), speed=20) as running:
        yield running
