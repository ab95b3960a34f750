"""What vLLM logs of its ranks becomes their names, and the one that failed."""

from __future__ import annotations

import pytest

from kilocard.launch import Engine, EngineError
from kilocard.launch.command import Flavour
from kilocard.launch.failure import TAIL_LINES, likely_cause
from kilocard.launch.ranks import rank_failure, rank_names
from kilocard.specs.engine import EngineSpec

STARTED = """\
(VllmWorker-1 pid=12) WARNING 11-30 00:22:25 [vllm.py:725] using the V1 model runner instead.
(VllmWorker-0 pid=11) WARNING 11-30 00:22:25 [vllm.py:725] using the V1 model runner instead.
(Worker pid=12) INFO 11-30 00:22:26 [parallel_state.py:1] world_size=2 rank=1
(Worker pid=11) INFO 11-30 00:22:26 [parallel_state.py:1] world_size=2 rank=0
(Worker_TP1 pid=12) INFO 11-30 00:22:27 [cpu_worker.py:1] bound to 1
(Worker_TP0 pid=11) INFO 11-30 00:22:27 [cpu_worker.py:1] bound to 0
"""
KILLED = """\
(EngineCore pid=9) ERROR 11-30 00:22:45 [multiproc_executor.py:315] Worker proc VllmWorker-1 died \
unexpectedly (exit code: None), shutting down executor.
(EngineCore pid=9) ERROR 11-30 00:22:54 [core.py:1512] RuntimeError: cancelled
"""
DEAD = (
    "(APIServer pid=8) ERROR 11-30 00:22:54 [serving.py:500] vllm.v1.engine.exceptions.EngineDeadError: "
    "EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
)
SAID = "(Worker_TP1 pid=12) ERROR 11-30 00:26:41 [multiproc_executor.py:1063]"
RAISED = f"""\
{SAID} WorkerProc hit an exception.
{SAID} Traceback (most recent call last):
{SAID}   File "/lib/vllm/v1/worker/gpu_model_runner.py", line 3415, in _preprocess
{SAID}     tensors = self.gather(
(EngineCore pid=9) ERROR 11-30 00:26:41 [core.py:1512] KeyError: 'cmpl-b3394d7a'
{SAID}   File "/lib/vllm/v1/worker/gpu_model_runner.py", line 3174, in gather
{SAID}     assert self.tensors is not None
{SAID}            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
{SAID} LAST
{SAID}
"""


def test_a_rank_has_the_last_name_that_its_process_took() -> None:
    assert rank_names(STARTED) == {11: "Worker_TP0", 12: "Worker_TP1"}
    assert rank_names("") == {}


def test_ranks_of_one_name_get_numbers() -> None:
    log = "(Worker pid=31) INFO a\n(Worker pid=30) INFO b\n(Worker_TP1 pid=29) INFO c\n"
    assert rank_names(log) == {29: "Worker_TP1", 30: "Worker_0", 31: "Worker_1"}


def test_the_rank_that_died_is_the_cause_however_much_is_logged_after_it() -> None:
    cause = likely_cause(STARTED + KILLED + DEAD * 2 * TAIL_LINES)
    assert cause.startswith("Worker_TP1 died, and every rank with it")
    assert "one fault domain, start the engine again" in cause
    assert "\n" not in cause


def test_a_rank_that_died_before_it_knew_its_rank_has_its_process_s_name() -> None:
    assert rank_failure(KILLED).startswith("VllmWorker-1 died")


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("AssertionError", "AssertionError in gather (gpu_model_runner.py, line 3174)"),
        ("torch.AcceleratorError: lost the card", "torch.AcceleratorError: lost the card"),
    ],
)
def test_the_rank_that_raised_is_quoted(last: str, told: str) -> None:
    cause = likely_cause(STARTED + RAISED.replace("LAST", last) + DEAD)
    assert cause == f"Worker_TP1 failed, and every rank with it: {told}"


def test_a_known_cause_says_more_than_who_failed() -> None:
    assert "out of memory: lower" in likely_cause(
        RAISED.replace("LAST", "torch.OutOfMemoryError: CUDA") + DEAD
    )


def test_a_log_without_a_rank_is_read_as_before() -> None:
    assert rank_failure(DEAD) == ""
    assert "EngineDeadError" in likely_cause(DEAD)


def test_the_ranks_of_an_engine_elsewhere_cannot_be_seen() -> None:
    engine = Engine(EngineSpec(), Flavour.REMOTE, "http://10.0.0.7:8000", "", "", None)
    with pytest.raises(Exception, match=r"10\.0\.0\.7:8000 runs elsewhere") as caught:
        engine.ranks()
    assert not isinstance(caught.value, EngineError)
