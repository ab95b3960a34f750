"""When a run must not be believed."""

import asyncio
import gc
import resource
import time

import pytest

from kilocard.errors import KilocardError
from kilocard.load.health import LoopHealth, fault_of, no_garbage_collection, require_sockets

WELL = {"cpu_cores": 0.2, "loop_lag_p99_s": 0.001}


def test_a_client_with_time_to_spare_is_believed() -> None:
    assert fault_of(WELL, 0.05, 0.0) == ""


@pytest.mark.parametrize(
    ("report", "late", "says"),
    [
        ({**WELL, "cpu_cores": 0.97}, 0.0, "0.97 of one core"),
        ({**WELL, "loop_lag_p99_s": 0.05}, 0.0, "lagged by 50 ms"),
        (WELL, 0.2, "20% of the requests left"),
    ],
)
def test_a_client_that_was_the_bottleneck_is_not(report: dict[str, float], late: float, says: str) -> None:
    assert says in fault_of(report, 0.05, late)


def test_lag_is_judged_by_what_is_measured() -> None:
    lagging = {**WELL, "loop_lag_p99_s": 0.05}
    assert fault_of(lagging, 2.0, 0.0) == ""
    assert fault_of(lagging, None, 0.0)


def test_a_blocked_loop_is_noticed() -> None:
    async def blocked() -> LoopHealth:
        health = LoopHealth()
        watch = asyncio.create_task(health.watch())
        await asyncio.sleep(0.03)
        time.sleep(0.2)
        await asyncio.sleep(0.03)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        return health

    health = asyncio.run(blocked())
    assert max(health.lags) > 0.1
    assert health.report()["loop_lag_p99_s"] > 0.0


def test_collection_is_off_during_a_run_and_as_before_after_it() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), no_garbage_collection():
        assert not gc.isenabled()
        _ = 1 / 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_more_connections_than_files_may_be_open_are_refused() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    require_sockets(8)
    if hard != resource.RLIM_INFINITY:
        with pytest.raises(KilocardError, match="ulimit"):
            require_sockets(hard)
