"""Truth servers for the tests of the load generator."""

from collections.abc import Iterator

import pytest

from kilocard.load.truth_process import TruthServer, truth_server
from kilocard.load.truth_script import Script


@pytest.fixture(scope="session")
def truth() -> Iterator[TruthServer]:
    """A healthy server, three tokens packed into a chunk, a frame without a token first."""
    script = Script(ttft_s=0.004, tpot_s=0.001, chunk=3, role_frame=True, cached_tokens=5)
    with truth_server(script) as server:
        yield server
