"""One simulator on one load: in a process of its own, pinned to one core, with its answer as a row."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from peer_environment import Peer, PeerMissingError, last_line
from simulator_features import FEATURES
from simulator_loads import CONTEXT_TOKENS, LOADS, OUTPUT_TOKENS, PROMPT_TOKENS, Load

from kilocard import __version__
from kilocard.engine_model.calibration import calibration_for
from kilocard.fleet.build import case_step_time, kv_blocks
from kilocard.fleet.traffic import draw_traffic
from kilocard.specs import Case

SCRIPTS = Path(__file__).parent / "simulator_peers"
PEER_S = 1800
MAY_LACK = ("loop_s", "steps", "preemptions", "prefix_hit_ratio", "digest")


@dataclass(frozen=True, slots=True)
class Simulator:
    """One of the simulators: its script, its package unless it is Kilocard, and the loads it runs."""

    name: str
    script: str
    peer: Peer | None
    loads: tuple[str, ...]
    most_requests: int | None = None
    """Of a load: what a slow one is given to keep the whole within minutes."""
    as_shipped: bool = False


KILOCARD = Simulator("kilocard", "run_kilocard.py", None, tuple(LOADS))
VIDUR = Peer("vidur", "0.0.26")
SIMULATORS = (
    KILOCARD,
    Simulator(
        "vllm-sr-sim", "run_vllm_sr_sim.py", Peer("vllm-sr-sim", "0.1.0.dev20260713123629"),
        ("one replica", "fleet"),
    ),
    Simulator("sched-sim", "run_sched_sim.py", Peer("sched-sim", "0.2.1"), ("one replica",)),
    Simulator("vidur", "run_vidur.py", VIDUR, ("one replica", "fleet"), 20_000),
    Simulator("vidur, its own policy", "run_vidur.py", VIDUR, ("fleet",), 20_000, as_shipped=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One simulator on one load. Memory is the process's peak, and what it was when warm, before the load."""

    simulator: str
    version: str
    level: str
    load: str
    replicas: int
    requests: int
    finished: int = 0
    wall_s: float | None = None
    """From requests in hand to all of them done; the median of `walls_s`."""
    walls_s: tuple[float, ...] = ()
    core_s: float | None = None
    """The same by the time the core worked on it, which a busy box does not lengthen; the median."""
    loop_s: float | None = None
    """Kilocard's: of the least wall time, the part after its tables are built."""
    memory_mb: float | None = None
    idle_memory_mb: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    steps: int | None = None
    preemptions: int | None = None
    prefix_hit_ratio: float | None = None
    digest: str | None = None
    problem: str | None = None

    @property
    def requests_per_s(self) -> float | None:
        """Requests simulated in a second of wall time."""
        return self.requests / self.wall_s if self.wall_s else None

    @property
    def requests_per_core_s(self) -> float | None:
        """Requests simulated in a second of the core's time."""
        return self.requests / self.core_s if self.core_s else None


def pinned() -> list[str]:
    """The prefix that keeps a command on one core, where there is such a tool."""
    if not shutil.which("taskset") or not hasattr(os, "sched_getaffinity"):
        return []
    return ["taskset", "-c", str(max(os.sched_getaffinity(0)))]


def measure(
    simulator: Simulator,
    name: str,
    load: Load,
    step_by_step: bool = False,
    told: dict[str, Any] | None = None,
    **engine: Any,
) -> Row:
    """One simulator on one load, in a fresh process; a peer that cannot run says why. `told` is for its
    script alone."""
    load = replace(load, requests=min(load.requests, simulator.most_requests or load.requests))
    version = simulator.peer.version if simulator.peer else __version__
    about = (simulator.name, version, FEATURES[simulator.name].level, name, load.replicas, load.requests)
    try:
        python = simulator.peer.python() if simulator.peer else Path(sys.executable)
        answer = _ask(python, simulator, load, step_by_step, engine, told or {})
    except PeerMissingError as problem:
        return Row(*about, problem=str(problem))
    return Row(
        *about,
        finished=answer["finished"],
        wall_s=median(answer["walls_s"]),
        walls_s=tuple(answer["walls_s"]),
        core_s=median(answer["cores_s"]),
        memory_mb=answer["memory_mb"],
        idle_memory_mb=answer["idle_memory_mb"],
        **{f"{latency}_ms": 1000 * answer[f"{latency}_s"] for latency in ("ttft", "tpot", "e2e")},
        **{key: answer.get(key) for key in MAY_LACK},
    )


def _ask(
    python: Path,
    simulator: Simulator,
    load: Load,
    step_by_step: bool,
    engine: dict[str, Any],
    told: dict[str, Any],
) -> dict[str, Any]:
    """Let a simulator's script read the load from a file and write its answer to another."""
    with tempfile.TemporaryDirectory() as folder:
        load_file, answer_file = Path(folder, "load.json"), Path(folder, "answer.json")
        asked = _as_file(load.case(**engine), Path(folder, "arrivals"), simulator, step_by_step)
        load_file.write_text(json.dumps(asked | told))
        command = [*pinned(), str(python), str(SCRIPTS / simulator.script)]
        environment = {**os.environ, "WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1"}
        try:
            ended = subprocess.run(
                [*command, str(load_file), str(answer_file)], cwd=folder, env=environment,
                capture_output=True, text=True, timeout=PEER_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise PeerMissingError(f"did not end within {PEER_S} s") from late
        if ended.returncode:
            raise PeerMissingError(f"did not run: {last_line(ended.stderr)}")
        answer: dict[str, Any] = json.loads(answer_file.read_text())
        return answer


def _as_file(case: Case, arrivals: Path, simulator: Simulator, step_by_step: bool) -> dict[str, Any]:
    """Everything that a simulator may want to know of the case."""
    cost = case_step_time(case, calibration_for(case.card, case.calibration)).picoseconds()
    arrivals.write_bytes(draw_traffic(case.workload, case.seed).arrival_s.tobytes())
    return {
        "case": case.model_dump(mode="json"),
        "arrivals": str(arrivals),
        "repeats": 1 if simulator.peer or step_by_step else 5,
        "replicas": case.replicas,
        "prompt_tokens": PROMPT_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
        "context_tokens": CONTEXT_TOKENS,
        "max_num_seqs": case.engine.max_num_seqs,
        "max_num_batched_tokens": case.engine.max_num_batched_tokens,
        "block_tokens": case.engine.block_size,
        "kv_blocks": kv_blocks(case),
        "step_ps": cost | {"base_ps": cost["base_ps"].tolist()},
        "as_shipped": simulator.as_shipped,
        "step_by_step": step_by_step,
    }
