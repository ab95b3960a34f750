"""Prefill on some cards, decode on others: both pools in virtual time, and the cache on the wire between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilocard import facts
from kilocard.engine_model.calibration import Calibration, calibration_of_case
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.errors import KilocardError
from kilocard.fleet.build import case_step_time, sequence_room
from kilocard.fleet.simulate import Simulated, simulate_traffic
from kilocard.fleet.traffic import Traffic, draw_traffic
from kilocard.parallel.collective import Wire, message_s
from kilocard.specs.case import Case

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Served:
    """Each request's seconds to its first token, and a token from there; `wire_busy` is the share of the time
    that a prefill engine's wire carries caches, over 1 where it cannot keep up; 0 where nothing is sent."""

    ttft_s: Floats
    tpot_s: Floats
    wire_busy: float = 0.0

    def within(self, ttft_s: float, tpot_s: float) -> float:
        """The share of requests that meet both limits."""
        return float(np.mean((self.ttft_s <= ttft_s) & (self.tpot_s <= tpot_s)))


def served_together(case: Case) -> Served:
    """The case as it is: every engine reads prompts and writes answers."""
    calibration = calibration_of_case(case)
    traffic = draw_traffic(case.workload, case.seed)
    requests = _requests(simulate_traffic(case, traffic, calibration))
    overhead_s = calibration.coefficients.request_s
    first_s = _seconds(requests.first_ps - requests.arrival_ps)
    return Served(first_s + overhead_s, _seconds(requests.last_ps - requests.first_ps) / _more(traffic))


def served_apart(case: Case, prefill: int, decode: int, wire: Wire) -> Served:
    """The same requests with `prefill` engines that only read prompts and `decode` that only write on.

    The first token comes from the prefill engine; the cache of the prompt then goes over `wire`, whole and at
    once, and decoding goes on when it is there. Prompts have to be of one length: what each sequence's cache
    costs to read is then a constant, and the decode engines are simulated without their prompts. Requests on
    the wire do not wait for each other; `wire_busy` tells when they would.
    """
    _check(case, prefill, decode)
    calibration = calibration_of_case(case)
    traffic = draw_traffic(case.workload, case.seed)
    prompt = int(traffic.prompt_tokens[0])
    reading = _requests(_read_prompts(case, traffic, calibration, prefill))
    first_s = _seconds(reading.first_ps)
    moved_s = float(message_s(cache_bytes(case, prompt), wire))
    writing = _requests(_write_on(case, traffic, calibration, decode, first_s + moved_s))
    overhead_s = calibration.coefficients.request_s
    return Served(
        ttft_s=first_s - traffic.arrival_s + overhead_s,
        tpot_s=(_seconds(writing.last_ps) - first_s) / _more(traffic),
        wire_busy=moved_s * len(traffic) / float(traffic.arrival_s.max()) / prefill,
    )


def cache_bytes(case: Case, tokens: int) -> int:
    """Bytes of a sequence's cache: KV of all layers, and the fixed state of hybrids."""
    model = facts.model(case.model)
    return tokens * model.kv_bytes_per_token(facts.KvDtype(case.kv)) + model.state_bytes_per_sequence()


def _check(case: Case, prefill: int, decode: int) -> None:
    if min(prefill, decode) < 1:
        raise KilocardError(f"{prefill} prefill and {decode} decode engines: give 1 or more of each")
    if not isinstance(case.workload.prompt_tokens, int) or case.workload.is_closed_loop:
        raise KilocardError("pools apart are simulated for prompts of one length, in an open loop")
    if case.workload.system_prompts or case.workload.distinct_prompts or case.workload.turns:
        raise KilocardError("pools apart are simulated without shared prompts and turns: leave them out")
    if case.slow or case.cap is not None:
        raise KilocardError("pools apart are simulated of engines alike, uncapped: leave slow and cap out")


def _read_prompts(case: Case, traffic: Traffic, calibration: Calibration, engines: int) -> Simulated:
    one = replace(traffic, output_tokens=np.ones(len(traffic), np.int64))
    return simulate_traffic(_with(case, replicas=engines), one, calibration)


def _write_on(
    case: Case, traffic: Traffic, calibration: Calibration, engines: int, there_s: Floats
) -> Simulated:
    """Answers from their second token on, each sequence paying for its prompt's cache at every step."""
    prompt = int(traffic.prompt_tokens[0])
    step = case_step_time(case, calibration)
    without_prompts = replace(
        step,
        sequence_s=step.sequence_s + prompt * step.kv_token_s,
        prefill_step_s=0.0,
        pair_s=0.0,
        prefill_floor_s=0.0,
    )
    longest = prompt + int(traffic.output_tokens.max())
    seats = min(case.engine.max_num_seqs, sequence_room(case) // longest)
    rest = np.maximum(traffic.output_tokens - 1, 1)
    follow_up = replace(traffic, arrival_s=there_s, prompt_tokens=np.ones_like(rest), output_tokens=rest)
    pool = _with(case, replicas=engines, engine=case.engine.model_copy(update={"max_num_seqs": seats}))
    return simulate_traffic(pool, follow_up, calibration, step=without_prompts)


def _with(case: Case, **changes: Any) -> Case:
    return case.model_copy(update=changes)


def _requests(simulated: Simulated) -> Any:
    return simulated.engines.tables.requests


def _seconds(picoseconds: Any) -> Floats:
    return np.asarray(picoseconds, dtype=float) / PICOSECONDS


def _more(traffic: Traffic) -> Floats:
    return np.maximum(traffic.output_tokens - 1, 1).astype(float)


def highest_rate(shares: Mapping[float, float], wanted: float = 0.9) -> float:
    """The highest rate up to which the wanted share meets the limits; 0 where none does."""
    best = 0.0
    for rate in sorted(shares):
        if shares[rate] < wanted:
            break
        best = rate
    return best
