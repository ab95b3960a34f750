"""Real vLLM on two ranks: one is killed in mid-run; all hear of it, none waits for ever, nothing stays."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launch_fakes import eventually, traces

from kilocard import processes
from kilocard.launch import EngineError, start
from kilocard.load import Timeouts, send_one
from kilocard.record import Status
from kilocard.specs.engine import RANDOM_MODEL, EngineSpec

SPEC = EngineSpec(model=RANDOM_MODEL, tensor_parallel_size=2, max_model_len=1024, max_num_seqs=4)
STREAMS = 3


@pytest.mark.engine
@pytest.mark.two_ranks
def test_a_rank_killed_in_mid_run_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KILOCARD_ENGINE_URL", raising=False)
    engine = start(SPEC, stand_in=False)
    ranks = engine.ranks()
    assert set(ranks) == {"Worker_TP0", "Worker_TP1"}
    assert engine.stamp_fields()["settings"]["load_format"] == "dummy"
    server = engine._hold.pid if engine._hold else 0
    guard_pid = int(processes.stat_fields(server)[1])
    family = [guard_pid, *processes.descendants(guard_pid)]
    shared = set().union(*(processes.shared_files_of(pid) for pid in family))

    def stream(number: int) -> tuple[Status, str | None, int]:
        answer = send_one(
            engine.url,
            engine.model,
            prompt=f"Number {number}:",
            max_tokens=900,
            timeouts=Timeouts(total_s=120),
            ignore_eos=True,
        )
        return answer.status, answer.error, len(answer.chunk_times_s)

    with ThreadPoolExecutor(STREAMS) as threads:
        running = [threads.submit(stream, number) for number in range(STREAMS)]
        assert eventually(lambda: engine.metrics().running == STREAMS)
        before = engine.metrics().generation_tokens or 0  # from here on each stream gets a token a step
        assert eventually(lambda: (engine.metrics().generation_tokens or 0) > before + 8 * STREAMS)
        os.kill(ranks["Worker_TP1"], signal.SIGKILL)
        assert eventually(lambda: set(engine.ranks()) <= {"Worker_TP0"})
        ended = [future.result() for future in running]
    assert {status for status, _, _ in ended} == {Status.ERROR}
    assert all(error for _, error, _ in ended)
    assert all(0 < chunks < 900 for _, _, chunks in ended)
    with pytest.raises(EngineError, match=r"the engine died: Worker_TP1 died.* one fault domain") as caught:
        engine.wait()
    assert "\n" not in str(caught.value)
    assert engine.ranks() == {}
    assert stream(9)[0] is Status.REFUSED
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))
    assert traces(server, guard_pid, engine.url) == []
    assert not [path for path in shared if path.name.startswith(processes.SHARED_NAMES) and path.exists()]
