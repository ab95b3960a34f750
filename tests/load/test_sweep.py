"""A sweep against a server that logs what it served, and against one that fails in every known way."""

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from kilocard.errors import KilocardError
from kilocard.load import Target, Timeouts, replay, send_one, sweep
from kilocard.load.recorder import Stage
from kilocard.load.sweep import requests_for
from kilocard.load.truth_process import TruthServer, truth_server
from kilocard.load.truth_script import Fault, Script
from kilocard.record import Kind, Run, Status
from kilocard.workload import Arrivals, Fixed, SharedPrefix, Workload

TOKENS = 10


@pytest.fixture(scope="module")
def swept(truth: TruthServer) -> Run:
    return sweep(
        truth.url,
        "truth",
        concurrency=(1, 4),
        requests_per_level=6,
        prompt_tokens=7,
        output_tokens=TOKENS,
        keep_chunk_times=True,
    )


def test_every_request_is_a_row_and_warm_up_is_none(swept: Run) -> None:
    assert (swept.requests["status"] == Status.OK).all()
    assert swept.requests.groupby("stage").size().to_dict() == {0: 6, 1: 8}
    assert swept.requests["request_id"].is_unique


def test_tokens_come_from_usage_and_chunks_from_the_stream(swept: Run) -> None:
    assert (swept.requests["output_tokens"] == TOKENS).all()
    assert (swept.requests["chunks"] == 4).all(), (
        "one token, then three chunks of three; the role frame is none"
    )
    assert (swept.requests["prompt_tokens"] == 7).all()
    assert (swept.requests["cached_tokens"] == 5).all()


def test_nothing_is_seen_before_it_was_served(swept: Run, truth: TruthServer) -> None:
    served = {row.request_id: row for row in truth.served() if not row.request_id.startswith("warmup")}
    for row in swept.requests.itertuples():
        told = served[row.request_id]
        assert told.first_token_s is not None
        assert row.first_token_s - row.sent_s > told.first_token_s


def test_chunk_times_agree_with_the_table(swept: Run) -> None:
    for row in swept.requests.itertuples():
        times = swept.chunk_times_s[row.request_id]
        assert (times[0], times[-1], len(times)) == (row.first_token_s, row.last_token_s, row.chunks)
        assert row.max_gap_s == max(b - a for a, b in itertools.pairwise(times))


def test_no_more_than_the_level_are_ever_in_flight(swept: Run) -> None:
    table = swept.stage(1).requests
    for moment in table["sent_s"]:
        assert ((table["sent_s"] <= moment) & (table["last_token_s"] > moment)).sum() <= 4


def test_the_stamp_says_who_answered_and_how_the_client_was(swept: Run) -> None:
    stamp = swept.stamp
    assert (stamp.kind, stamp.engine, stamp.model) == (Kind.EMULATED, "kilocard-truth-server", "truth")
    assert stamp.workload["stages"]["1"]["concurrency"] == 4
    assert {"loop_lag_p99_s", "late_sends", "cpu_cores", "stopped"} <= set(stamp.client)


def test_what_prompts_share_is_in_the_stamp(truth: TruthServer) -> None:
    run = sweep(truth.url, "truth", concurrency=(1,), requests_per_level=2, prompt_tokens=7,
                output_tokens=TOKENS, prefix=SharedPrefix(4))  # fmt: skip
    assert run.stamp.workload["shared_prefix"] == {"tokens": 4, "groups": 1}


def test_one_request_takes_token_ids(truth: TruthServer) -> None:
    assert send_one(truth.url, "truth", prompt=[1000, 1001], max_tokens=TOKENS).output_tokens == TOKENS


def test_fields_of_the_stamp_can_be_overridden(truth: TruthServer) -> None:
    run = sweep(truth.url, concurrency=(1,), requests_per_level=2, output_tokens=2, stamp={"card": "l4"})
    assert (run.stamp.card, run.stamp.model) == ("l4", "truth")


def test_an_open_loop_knows_when_each_request_was_due(truth: TruthServer) -> None:
    load = Workload(8, Fixed(5), Fixed(TOKENS), Arrivals(200.0, "constant"))
    table = replay(truth.url, "truth", workloads=[load, load]).requests
    assert (table["status"] == Status.OK).all()
    for stage in (0, 1):
        due = table.loc[table["stage"] == stage, "scheduled_s"].sort_values().astype(float)
        assert due.diff().dropna().to_numpy() == pytest.approx(0.005)
    assert (table["sent_s"] >= table["scheduled_s"]).all()


def test_a_chat_endpoint_under_a_path_and_with_a_key(truth: TruthServer) -> None:
    target = Target(f"{truth.url}/some/path/v1/", "truth", "chat", api_key="secret")
    run = sweep(target, concurrency=(2,), requests_per_level=4, prompt_tokens=9, output_tokens=TOKENS)
    assert (run.requests["status"] == Status.OK).all()
    assert (run.requests["prompt_tokens"] == 9).all()
    assert "secret" not in repr(target)


def test_one_request_shows_every_chunk(truth: TruthServer) -> None:
    one = send_one(truth.url, prompt="a b c", max_tokens=7)
    assert one.status is Status.OK
    assert one.chunk_texts == [" the", " the" * 3, " the" * 3]
    assert (one.prompt_tokens, one.output_tokens, len(one.chunk_times_s)) == (3, 7, 3)
    assert one.tpot_s == (one.chunk_times_s[-1] - one.chunk_times_s[0]) / 6


def test_it_works_inside_a_running_event_loop(truth: TruthServer) -> None:
    async def in_a_notebook() -> Run:
        return sweep(truth.url, concurrency=(1,), requests_per_level=2, output_tokens=2)

    assert len(asyncio.run(in_a_notebook()).ok) == 2


EVENTS = {  # the number of the request that meets it, with one warm-up before; healthy ones in between
    1: (Fault.HANG_BEFORE, Status.TIMEOUT),
    3: (Fault.HANG_AFTER, Status.TIMEOUT),
    5: (Fault.HTTP_500, Status.ERROR),
    7: (Fault.HTTP_503, Status.REFUSED),
    9: (Fault.HTTP_429, Status.REFUSED),
    11: (Fault.ERROR_EVENT, Status.ERROR),
    13: (Fault.REFUSAL_EVENT, Status.REFUSED),
    15: (Fault.NO_LAST_WORD, Status.LOST),
    17: (Fault.TRUNCATE, Status.LOST),
    19: (Fault.RESET, Status.LOST),
    21: (Fault.GARBAGE, Status.ERROR),
    23: (Fault.HTTP_400, Status.ERROR),
}
HALF_SERVED = {Fault.HANG_AFTER, Fault.ERROR_EVENT, Fault.NO_LAST_WORD, Fault.TRUNCATE, Fault.RESET}


@pytest.fixture(scope="module")
def faulty() -> Iterator[Run]:
    script = Script(ttft_s=0.002, tpot_s=0.0, faults={number: fault for number, (fault, _) in EVENTS.items()})
    with truth_server(script) as server:
        yield sweep(
            server.url,
            concurrency=(1,),
            requests_per_level=25,
            output_tokens=6,
            timeouts=Timeouts(total_s=30.0, idle_s=1.0),
        )


@pytest.mark.parametrize("number", EVENTS)
def test_each_fault_ends_in_the_table_with_its_status(faulty: Run, number: int) -> None:
    fault, status = EVENTS[number]
    row = faulty.requests.iloc[number - 1]
    assert row["status"] == status, row["error"]
    assert row["error"]
    assert bool(row["chunks"]) == (fault in HALF_SERVED), "what came before the fault is kept"


def test_the_requests_between_the_faults_are_well(faulty: Run) -> None:
    healthy = [row - 1 for row in range(1, 26) if row not in EVENTS]
    assert (faulty.requests.iloc[healthy]["status"] == Status.OK).all()
    assert not faulty.stamp.client["stopped"]


def test_a_request_that_takes_too_long_as_a_whole_times_out() -> None:
    with truth_server(Script(ttft_s=0.001, tpot_s=0.05)) as server:
        one = send_one(server.url, max_tokens=1000, timeouts=Timeouts(total_s=0.3, idle_s=5.0))
    assert one.status is Status.TIMEOUT
    assert one.chunk_times_s


def test_a_dead_engine_stops_the_sweep_and_keeps_what_was_measured() -> None:
    with truth_server(Script(ttft_s=0.001, tpot_s=0.0, faults={20: Fault.EXIT})) as server:
        run = sweep(server.url, concurrency=(2, 4, 8), requests_per_level=12, output_tokens=4)
    assert run.stages == [0, 1]
    assert (run.stage(0).requests["status"] == Status.OK).all()
    assert set(run.stage(1).requests["status"]) <= {Status.OK, Status.LOST, Status.REFUSED}
    assert {Status.LOST, Status.OK} <= set(run.stage(1).requests["status"])
    assert run.stamp.client["stopped"].startswith("stopped at 4 concurrent: the engine is gone")


def test_a_hung_engine_stops_the_sweep() -> None:
    with truth_server(Script(faults={-1: Fault.HANG_BEFORE})) as server:
        run = sweep(server.url, concurrency=(4, 8), requests_per_level=40, warmup=0, timeouts=0.3)
    assert set(run.requests["status"]) == {Status.TIMEOUT}
    assert len(run.requests) < 40
    assert "timed out" in run.stamp.client["stopped"]


def test_an_engine_that_answers_only_errors_ends_its_level_and_no_more() -> None:
    with truth_server(Script(faults={-1: Fault.HTTP_500})) as server:
        run = sweep(server.url, concurrency=(2, 4), requests_per_level=7)
    assert len(run.requests) == 7
    assert "no request of 7 succeeded" in run.stamp.client["stopped"]


def test_an_interrupt_keeps_what_was_measured() -> None:
    class InterruptAfterFirstLevel:
        """Stands in for a person at the keyboard."""

        def show(self, stage: Stage | None, ended: int) -> None:
            if stage is not None and stage.number == 1 and ended >= 1:
                os.kill(os.getpid(), signal.SIGINT)

        def stage_ended(self, stage: Stage, rows: list[dict[str, object]]) -> None:
            pass

    assert threading.current_thread() is threading.main_thread()
    with truth_server(Script(ttft_s=0.01, tpot_s=0.02)) as server:
        run = sweep(
            server.url,
            concurrency=(4, 2),
            requests_per_level=12,
            output_tokens=6,
            progress=InterruptAfterFirstLevel(),
        )
    assert len(run.stage(0).ok) == 12
    assert {Status.OK, Status.CANCELLED} == set(run.stage(1).requests["status"])
    assert run.stamp.client["interrupted"]


def test_a_request_that_the_engine_cannot_take_is_said_before_the_sweep() -> None:
    with (
        truth_server(Script(faults={-1: Fault.HTTP_400})) as server,
        pytest.raises(KilocardError, match="HTTP 400"),
    ):
        sweep(server.url, concurrency=(1,))


def test_levels_make_rounds_enough_to_hold_their_concurrency() -> None:
    assert all(requests_for(level) >= 2 * level for level in range(1, 300))


@pytest.mark.parametrize(
    "bad",
    [
        {"concurrency": (0,)},
        {"concurrency": ()},
        {"requests_per_level": -1},
        {"prompt_tokens": 0},
        {"output_tokens": -3},
        {"warmup": -1},
        {"seed": -1},
        {"timeouts": 0.0},
        {"concurrency": (10_000_000,)},
        {"concurrency": (10**9,)},
        {"requests_per_level": 10**12},
        {"warmup": 10**9},
        {"prompt_tokens": 10**9},
        {"output_tokens": 10**9},
        {"stamp": {"cart": "l4"}},
    ],
)
def test_bad_numbers_are_refused(truth: TruthServer, bad: dict[str, object]) -> None:
    with pytest.raises(KilocardError):
        sweep(truth.url, "truth", **bad)  # type: ignore[arg-type]
