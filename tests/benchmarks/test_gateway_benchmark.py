"""The comparison of gateways, without its peers: engines serve what they say, tables are right."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import chaos  # noqa: E402
import gateway_settings  # noqa: E402
from chaos_answers import Answer, End, judge  # noqa: E402
from gateway_answers import read  # noqa: E402
from gateway_client import Ask, Client, Exchange, open_loop  # noqa: E402
from gateway_engine import PrefixCache, Script  # noqa: E402
from gateway_findings import best, findings, medians, misses  # noqa: E402
from gateway_frames import STREAM_HEAD, answer, last_events, token_event  # noqa: E402
from gateway_peers.catalogue import DIRECT, GATEWAYS, PEERS  # noqa: E402
from gateway_peers.place import Place  # noqa: E402
from gateway_peers.started import fake_engines, served  # noqa: E402
from gateway_rows import Row, measure, percentile  # noqa: E402
from gateway_settings import BALANCE, Setting, Slo, question  # noqa: E402

import gateway  # noqa: E402

USAGE = {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}


def told(content: bytes, end: str = "complete", tokens: int = 3) -> Any:
    return read(
        Exchange(question("a", "b", tokens), 1.0, [(2.0, content[:200]), (3.0, content[200:])], end), 0
    )


def stream(tokens: int, last: bool = True) -> bytes:
    events = b"".join(token_event("a", True, number) for number in range(tokens))
    return STREAM_HEAD + events + (last_events("a", True, USAGE) if last else b"")


def test_an_answer_is_ok_with_all_its_tokens_in_order_and_its_last_word() -> None:
    whole = told(stream(3))
    assert (whole.status, whole.tokens, whole.text, whole.first_token) == ("ok", 3, answer(3), 3.0)
    assert told(stream(3, last=False), "cut").status == "cut"
    assert told(stream(2)).status == "cut"
    assert told(stream(4)).status == "cut"
    twice = STREAM_HEAD + b"".join(token_event("a", True, number) for number in (0, 0, 1))
    assert told(twice + last_events("a", True, USAGE)).status == "cut"


def test_other_ends_are_told_apart() -> None:
    assert told(b"HTTP/1.1 503 no\r\ncontent-length: 0\r\n\r\n").status == "refused"
    assert told(b"HTTP/1.1 500 no\r\ncontent-length: 2\r\n\r\nno").detail == "HTTP 500: no"
    assert told(b"", "unreachable").status == "error"
    assert told(stream(1, last=False), "timeout").status == "timeout"
    complaint = b'data: {"error": {"message": "gone"}}\n\n'
    framed = b"%x\r\n%b\r\n" % (len(complaint), complaint)
    assert told(stream(1, last=False) + framed).status == "error"


def test_engines_serve_what_is_asked_and_log_it() -> None:
    with fake_engines(Script(tpot_s=0.001, cached_tokens=64), 2) as engines:

        async def run() -> Client:
            client = Client(engines.ports)
            shared = " ".join(map(str, range(40)))
            for number in range(4):
                await client.send(question(f"r{number}", shared, 5 + number, streamed=number % 2 == 0))
            client.close()
            return client

        client = asyncio.run(run())
        log = {row["request_id"]: row for row in served(engines.ports)}
    answers = [read(exchange, 0.0) for exchange in client.exchanges]
    assert [one.status for one in answers] == ["ok"] * 4
    assert [log[f"r{number}"]["output_tokens"] for number in range(4)] == [5, 6, 7, 8]
    assert [log[f"r{number}"]["engine"] for number in range(4)] == [0, 1, 0, 1]
    assert [log[f"r{number}"]["cached_tokens"] for number in range(4)] == [0, 0, 32, 32]
    assert all(log[f"r{number}"]["end"] == "done" for number in range(4))


def test_a_client_that_hangs_up_leaves_its_engine() -> None:
    with fake_engines(Script(tpot_s=0.05), 1) as engines:

        async def run() -> None:
            client = Client(engines.ports)
            task = asyncio.create_task(client.send(question("gone", "b", 400)))
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(run())
        (row,) = served(engines.ports)
    assert row["end"] == "hung up" and row["output_tokens"] < 400


def test_a_prefix_is_held_to_its_first_new_block_and_the_oldest_goes_first() -> None:
    cache = PrefixCache(blocks=3, block_tokens=2)
    assert cache.take(["a", "b", "c", "d"]) == 0
    assert cache.take(["a", "b", "c", "d", "e"]) == 4
    assert cache.take(["a", "b", "x", "y"]) == 2
    assert cache.take(["p", "q", "r", "s"]) == 0
    assert cache.take(["a", "b", "c", "d"]) == 2


def test_arrivals_have_the_rate_and_the_spread_that_they_say() -> None:
    asks = gateway_settings.mixed_asks(60, 4.0, 1, 400.0)
    gaps = np.diff([ask.due_s for ask in asks])
    assert 1 / gaps.mean() == pytest.approx(60, rel=0.15)
    assert gaps.std() / gaps.mean() == pytest.approx(4, rel=0.15)
    assert np.mean([ask.tokens for ask in asks]) == pytest.approx(gateway_settings.MEAN_TOKENS, rel=0.05)
    assert [ask.messages for ask in gateway_settings.mixed_asks(60, 4.0, 1, 400.0)] == [
        ask.messages for ask in asks
    ]


def test_a_run_without_a_gateway_gives_a_row() -> None:
    def play(seed: int, measured_s: float) -> Any:
        asks = [question(f"q{number}", "b", 20, 0.005 * number) for number in range(40)]

        async def run(client: Client, start: float) -> None:
            await open_loop(client, asks, start)

        return run

    setting = Setting("small", Script(tpot_s=0.001), play, engines=2, warm_s=0.0, slo=Slo(9, 9), slow_one=1)
    row = measure(DIRECT, setting, 0, 0.2)
    assert (row.requests, row.ends, row.goodput_share, row.slow_share) == (40, {"ok": 40}, 1.0, 0.5)
    assert row.ttft_p50_ms and row.tpot_p50_ms and row.tpot_p99_ms is None
    assert row.cpu_ms_per_1000_chunks is None and not row.problem


def test_a_percentile_wants_enough_beyond_it() -> None:
    assert percentile(range(499), 99) is None
    assert percentile(range(501), 99) == pytest.approx(495)
    assert percentile(range(10), 50) == pytest.approx(4.5)


def test_every_peer_starts_from_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "peer_environment.Peer.python", lambda peer: tmp_path / peer.package / "bin" / "python"
    )
    monkeypatch.setattr(
        "gateway_peers.debian.DebianPeer.path", lambda peer: tmp_path / "usr/sbin" / peer.program
    )
    place = Place(tmp_path, 18000, 18001, (18010, 18011))
    for one in GATEWAYS:
        if one.command is not None:
            command = one.command(place)
            said = " ".join(command.argv) + "".join(
                path.read_text() for path in tmp_path.iterdir() if path.is_file()
            )
            assert "18000" in said and "18011" in said
    assert PEERS == ("direct", "kilocard", "nginx", "haproxy", "envoy", "vllm-router", "smg", "sglang-router")
    names = [one.name for one in GATEWAYS]
    assert len(set(names)) == len(names)


def row(setting: str, peer: str, policy: str, round_: int, **numbers: Any) -> Row:
    return Row(setting, peer, policy, "1", round_, 100, {"ok": 100}, **numbers)


def balance_rows(ours_ms: float) -> list[Row]:
    rows = []
    for setting in BALANCE:
        for round_ in range(2):
            rows += [
                row(
                    setting.name,
                    "kilocard",
                    "",
                    round_,
                    tpot_p99_ms=ours_ms,
                    ttft_p99_ms=9.0,
                    goodput_share=1.0,
                ),
                row(
                    setting.name, "nginx", "a", round_, tpot_p99_ms=30.0, ttft_p99_ms=50.0, goodput_share=0.9
                ),
            ]
        rows.append(row(setting.name, "nginx", "b", 0, tpot_p99_ms=1.0, ttft_p99_ms=99.0, goodput_share=0.5))
    return [*rows, row("without the slow one", "kilocard", "", 0, tpot_p99_ms=5.0)]


def test_findings_compare_the_best_that_ran_in_every_round() -> None:
    lines = list(medians(balance_rows(5.5)))
    found = findings(lines)["balance"]
    assert found["one slow"]["tpot_p99_ms"] == {"kilocard": 5.5, "best_peer": 30.0, "whose": "nginx, a"}
    assert found["times_better_with_one_slow"] == pytest.approx(30 / 5.5)
    assert found["over_the_healthy_fleet"] == pytest.approx(1.1)
    assert misses(findings(lines)) == []
    theirs = best(lines, "one slow", "ttft_p99_ms", lambda peer: peer == "nginx")
    assert theirs and theirs["gateway"] == "nginx, a"


def test_what_is_missed_is_named() -> None:
    missed = misses(findings(list(medians(balance_rows(31.0)))))
    assert "bursts: tpot_p99_ms no better than nginx, a" in missed
    assert any("less than 4 x better" in one for one in missed)
    assert any("the same fleet without it" in one for one in missed)
    streams = (("direct", 0.2, None), ("nginx", 0.4, 20.0), ("kilocard", 1.3, 31.0))
    shorts = (("nginx", 0.02), ("kilocard", 0.08), ("vllm-router", 0.07), ("smg", 0.09))
    rows = [
        row("100 streams", peer, "", 0, ttft_p50_ms=ttft, cpu_ms_per_1000_chunks=chunk)
        for peer, ttft, chunk in streams
    ]
    rows += [row("short answers", peer, "", 0, cpu_s_per_1000_requests=cpu) for peer, cpu in shorts]
    assert misses(findings(list(medians(rows)))) == [
        "CPU per chunk over 1.5 x nginx",
        "added TTFT over 1 ms",
        "CPU per request not below vllm-router",
    ]


def test_later_rounds_try_the_best_of_each_peer() -> None:
    tried = [one for one in GATEWAYS if one.peer in ("kilocard", "haproxy", "nginx")]
    rows = [
        row("chat", one.peer, one.policy, 0, tpot_p99_ms=float(at), ttft_p99_ms=float(at), goodput_share=0.5)
        for at, one in enumerate(tried)
    ]
    again = [one.name for one in gateway.best_policies(tried, rows)]
    assert again == [one.name for one in tried if one.peer == "kilocard"] + [
        "nginx, least_conn",
        "haproxy, leastconn",
    ]


def test_a_peer_that_cannot_be_had_is_named() -> None:
    lacking = Row("chat", "envoy", "x", "", 0, problem="not installed: no such package")
    assert "not installed: no such package" in gateway.show(lacking)
    (line,) = medians([lacking])
    assert line["problem"] and line["tpot_p99_ms"] is None and line["rounds"] == 0


def test_options_choose_peers_and_settings() -> None:
    quick = gateway.options_of(["--quick"])
    gateways, settings = gateway.chosen(quick)
    assert [one.name for one in gateways] == ["direct", "kilocard", "nginx, least_conn"]
    assert len(settings) == 3 and quick.rounds == 1
    gateways, settings = gateway.chosen(gateway.options_of(["--peers", "smg", "--setting", "chat"]))
    assert {one.peer for one in gateways} == {"smg"} and [one.name for one in settings] == ["chat"]
    with pytest.raises(SystemExit):
        gateway.options_of(["--peers", "apache"])


def test_the_length_of_an_answer_is_told_to_the_engine_alone() -> None:
    lengths = {Ask("a", [], tokens).most_tokens for tokens in (20, 400)}
    assert lengths == {512}


def judged(content: bytes, end: str = "complete", hung_up: bool = False) -> End:
    reads = [(2.0, content)] if content else []
    return judge(Exchange(question("a", "b", 3), 1.0, reads, end), hung_up).end


def test_each_end_of_a_request_has_one_name() -> None:
    assert judged(stream(3)) is End.OK
    assert judged(stream(3), "cut") is End.CUT
    assert judged(stream(2, last=False), "cut") is End.CUT
    assert judged(stream(2)) is End.CUT
    assert judged(stream(2, last=False), "", hung_up=True) is End.HUNG_UP
    assert judged(stream(3), hung_up=True) is End.OK
    assert judged(stream(4)) is End.TWICE
    assert judged(b"", "timeout") is End.UNANSWERED
    assert judged(b"", "cut") is End.CUT
    refusal = b"HTTP/1.1 503 no\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"
    assert judged(refusal) is End.REFUSED
    assert judged(refusal.replace(b"retry-after: 1\r\n", b"")) is End.REPORTED
    complaint = b'data: {"error": {"message": "gone"}}\n\n'
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(complaint), complaint)
    assert judged(stream(1, last=False) + framed) is End.REPORTED


def played(answers: list[Answer], **more: Any) -> chaos.Played:
    logged = [{"request_id": one.request_id, "outcome": str(one.end), "retries": 0} for one in answers]
    told = {"logged": logged, "in_flight": {"a": 0}, "memory_mb": [(0, 90.0), (1, 100.0), (2, 101.0)]}
    return chaos.Played(answers, Counter(killed=1), [], [], **{**told, **more})


def test_chaos_accounts_for_every_request() -> None:
    sound = [Answer("1", End.OK, 0.0, 1.0), Answer("2", End.REFUSED, 0.0, 1.0)]
    assert chaos.misses(chaos.account(played(sound))) == []
    assert chaos.misses(chaos.account(played([*sound, Answer("3", End.CUT, 0.0, 1.0)]))) == [
        "silently cut: 1"
    ]
    twice = [{"request_id": "1", "outcome": "ok"}] * 2
    assert chaos.misses(chaos.account(played(sound, logged=twice))) == [
        "a request is not in the access log",
        "a request is in the access log twice",
    ]
    assert chaos.misses(chaos.account(played(sound, in_flight={"a": 1}))) == ["something is still in flight"]
    grown = chaos.account(played(sound, memory_mb=[(1, 100.0), (2, 120.0)]))
    assert chaos.misses(grown) == ["memory has grown by 20.0 MB"]


def test_a_drained_replica_has_to_finish_what_it_held() -> None:
    answers = [
        Answer("1", End.OK, 1.0, 3.0, "a"),
        Answer("2", End.CUT, 1.5, 2.5, "a"),
        Answer("3", End.OK, 1.0, 3.0, "b"),
        Answer("4", End.OK, 2.2, 2.4, "a"),
    ]
    drained = {"replica": "a", "by": "drain", "began": 2.0, "held": 2, "empty": 3.0}
    told = chaos.finished(drained, answers)
    assert told["ends"] == {"ok": 1, "silently cut": 1} and told["sent_afterwards"] == 1
