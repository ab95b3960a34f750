"""Engines that misbehave on request, each by itself, by flag and at run time; and recover."""

import asyncio
import socket
import threading
from time import monotonic, sleep
from typing import Any

import pytest
from emulator_client import MODEL, ask, case_of, run_with
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.emulator import Emulated, Emulator, Faults, emulated
from kilocard.emulator.faults import planned
from kilocard.emulator.site import FAULT_FORM
from kilocard.errors import KilocardError
from kilocard.load import Target, replay, send_one
from kilocard.record import Status
from kilocard.workload import Arrivals, Fixed, Workload

COMPLETIONS = "/v1/completions"
SHORT: dict[str, Any] = {"prompt": [7] * 16, "max_tokens": 8}


def seconds(url: str, **options: Any) -> float:
    began = monotonic()
    assert send_one(url, MODEL, prompt=16, max_tokens=100, **options).status is Status.OK
    return monotonic() - began


def is_silent(url: str) -> bool:
    return send_one(url, MODEL, prompt=16, max_tokens=4, timeouts=0.5).status is Status.TIMEOUT


def takes_connections(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def test_a_slow_engine_is_slow_and_the_other_is_not(engines: Emulated) -> None:
    engines.fault(0, slow=40)
    slow, sound = seconds(engines.urls[0]), seconds(engines.urls[1])
    assert ask(engines.urls[0], "/emulator/fault").json["slow"] == 40
    engines.fault(0, slow=1)
    assert slow > 1
    assert sound < 1 > seconds(engines.urls[0])


def test_a_hung_engine_is_silent_in_good_health_and_goes_on_where_it_stopped(engines: Emulated) -> None:
    engines.fault(1, hang=True)
    assert is_silent(engines.urls[1])
    assert ask(engines.urls[1], "/health").status == 200
    assert seconds(engines.urls[0]) < 5
    engines.fault(1, hang=False)
    assert seconds(engines.urls[1]) < 5
    assert ask(engines.urls[1], "/metrics").content.count(b'finished_reason="abort"} 0.0') == 0


def test_a_crash_breaks_streams_and_closes_the_port_until_it_starts_anew(engines: Emulated) -> None:
    load = Workload(20, Fixed(16), Fixed(400), Arrivals(200.0))
    engines.fault(1, slow=20)
    with pytest.raises(KilocardError, match="nothing"):
        engines.fault(1, nothing=1)
    cut = send_while_crashing(engines, load)
    assert set(cut) <= {Status.LOST, Status.REFUSED}
    assert Status.LOST in cut
    assert not takes_connections(engines.urls[1])
    assert ask(engines.urls[0], "/health").status == 200
    engines.fault(1, through=0, crash=False, slow=1)
    assert seconds(engines.urls[1]) < 5
    metrics = ask(engines.urls[1], "/metrics").content.decode()
    assert 'vllm:num_requests_running{engine="0",model_name="qwen3-8b"} 0.0' in metrics
    assert 'vllm:kv_cache_usage_perc{engine="0",model_name="qwen3-8b"} 0.0' in metrics


def send_while_crashing(engines: Emulated, load: Workload) -> list[str]:
    """The statuses of requests to an engine that crashes as soon as it serves some of them."""

    def crash() -> None:
        while running(engines.urls[1]) == 0:
            sleep(0.01)
        engines.fault(1, through=0, crash=True)

    crashing = threading.Thread(target=crash)
    crashing.start()
    run = replay(Target(engines.urls[1], MODEL), workloads=load, warmup=0)
    crashing.join()
    return [str(status) for status in run.requests["status"]]


def running(url: str) -> float:
    page = ask(url, "/metrics").content.decode()
    return next(
        float(line.split()[-1]) for line in page.splitlines() if line.startswith("vllm:num_requests_running{")
    )


def test_an_engine_that_refuses_takes_no_connection(engines: Emulated) -> None:
    engines.fault(0, refuse=True)
    assert not takes_connections(engines.urls[0])
    assert send_one(engines.urls[0], MODEL, prompt=4).status is Status.REFUSED
    engines.fault(0, through=1, refuse=False)
    assert takes_connections(engines.urls[0])


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def test_an_engine_whose_port_was_taken_meanwhile_stays_as_it_was() -> None:
    async def run(emulator: Emulator) -> None:
        dead, port = {"engine": 0, "crash": True}, port_of(emulator.urls[0])
        alive = {"engine": 0, "crash": False, "slow": 2}

        async def post(body: Any) -> Any:
            return await asyncio.to_thread(ask, emulator.urls[1], "/emulator/fault", body)

        assert (await post(dead)).json == {"engine": 0, **Faults(crash=True).model_dump()}
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
            refused = await post(alive)
        assert refused.status == 400
        assert f"port {port} (it is taken)" in refused.json["error"]["message"]
        assert emulator.sites[0].engine.faults == Faults(crash=True)
        assert (await post(alive)).json == {"engine": 0, **Faults(slow=2).model_dump()}
        assert (await asyncio.to_thread(ask, emulator.urls[0], "/health")).status == 200

    run_with(run, case_of(replicas=2))


@given(st.lists(st.sampled_from([{"crash": True}, {"crash": False}, {"refuse": True}, {"refuse": False}])))
@settings(max_examples=10, deadline=None)
def test_however_quickly_faults_follow_each_other_the_port_is_open_or_closed_as_they_say(
    changes: list[dict[str, bool]],
) -> None:
    async def run(emulator: Emulator) -> None:
        told = await asyncio.gather(*(emulator.set_faults(0, change) for change in changes))
        faults = emulator.sites[0].engine.faults
        assert faults == (told[-1] if told else Faults())
        assert takes_connections(emulator.urls[0]) != faults.closes_port
        await emulator.set_faults(0, {"crash": True})
        assert not takes_connections(emulator.urls[0])

    run_with(run)


def test_the_answer_tells_the_faults_of_the_engine_that_was_changed(engines: Emulated) -> None:
    told = ask(engines.urls[0], "/emulator/fault", {"engine": 1, "slow": 2}).json
    assert told == {"engine": 1, **Faults(slow=2).model_dump()}
    assert ask(engines.urls[1], "/emulator/fault", {"slow": 1}).json == {"engine": 1, **Faults().model_dump()}


def test_a_share_of_requests_gets_a_500(engines: Emulated) -> None:
    engines.fault(0, http_500=0.5)
    statuses = [ask(engines.urls[0], COMPLETIONS, SHORT).status for _ in range(40)]
    engines.fault(0, http_500=0)
    assert set(statuses) == {200, 500}
    assert ask(engines.urls[0], COMPLETIONS, SHORT).status == 200


def test_an_error_event_comes_inside_the_200(engines: Emulated) -> None:
    engines.fault(0, error_event=1)
    body = {**SHORT, "stream": True}
    answer = ask(engines.urls[0], COMPLETIONS, body)
    whole = ask(engines.urls[0], COMPLETIONS, SHORT)
    engines.fault(0, error_event=0)
    assert answer.status == 200
    assert len(answer.events) == 5
    assert answer.events[-1]["error"]["code"] == 500
    assert whole.status == 500
    assert ask(engines.urls[0], COMPLETIONS, body).events[-1]["choices"][0]["finish_reason"] == "length"


def test_faults_by_flag_hold_from_the_start_or_come_later() -> None:
    flags = ["start_s=20@0", "hang@1+20"]
    with emulated(case_of(replicas=2), speed=20, faults=flags) as engines:
        assert ask(engines.urls[0], "/health").status == 503
        assert ask(engines.urls[0], COMPLETIONS, SHORT).status == 503
        assert ask(engines.urls[1], COMPLETIONS, SHORT).status == 200
        sleep(1.1)
        assert ask(engines.urls[0], "/health").status == 200
        assert ask(engines.urls[0], COMPLETIONS, SHORT).status == 200
        assert is_silent(engines.urls[1])


@pytest.mark.parametrize(
    ("text", "changes", "engine", "after_s"),
    [
        ("hang", {"hang": True}, None, 0),
        ("slow=4@2", {"slow": 4}, 2, 0),
        ("crash@0+30", {"crash": True}, 0, 30),
        ("http-500=0.25+1.5", {"http_500": 0.25}, None, 1.5),
    ],
)
def test_a_flag_names_fault_engine_and_time(
    text: str, changes: Any, engine: int | None, after_s: float
) -> None:
    fault = planned(text, 3)
    assert (fault.changes, fault.engine, fault.after_s) == (changes, engine, after_s)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slow",
        "slow=0",
        "slow=nan",
        "slow=1e9",
        "hung",
        "hang@3",
        "http_500=2",
        "hang+",
        "hang+1.2.3",
        "slow=2@x",
    ],
)
def test_what_is_no_fault_is_named(text: str) -> None:
    with pytest.raises(KilocardError, match="--fault"):
        planned(text, 3)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        *((body, FAULT_FORM) for body in (b"", b"{", b"[]", b"null", b"3", b"\xff", b"[" * 100_000)),
        *(
            ({"engine": number, "slow": 2}, f"there is no engine {number!r}; they are 0 to 1")
            for number in (9, -1, "x", True, 1.0, None, [1])
        ),
        ({"slow": -1}, "fault slow=-1: input should be greater than 0"),
        ({"hang": 1}, "fault hang=1: input should be a valid boolean"),
        ({"no": 1}, "unknown fault 'no'"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_bad_fault_at_run_time_changes_nothing(engines: Emulated, body: Any, says: str) -> None:
    answer = ask(engines.url, "/emulator/fault", body)
    assert answer.status == 400
    assert answer.json["error"]["message"].startswith(says)
    shown = ask(engines.url, "/emulator/fault").json
    assert shown == {"engine": 0, **Faults().model_dump()}
