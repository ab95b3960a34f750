"""Is a request lost when engines die, hang and crawl and the gateway is reloaded? 10,000 are accounted for.

    python benchmarks/chaos.py            # some three minutes on two cores
    python benchmarks/chaos.py --quick    # 2,500 requests, under a minute; keeps nothing
    python benchmarks/chaos.py --json     # the result on stdout

Kilocard's gateway before eight emulated engines; 64 clients ask for one stream after another, one in forty of
them hangs up on the way. Meanwhile engines are killed and restarted, hung, slowed, made to fail and to refuse
connections, drained, and removed and added by reloads of the cluster file, up to three at once. Each request
must end as ok, refused or a reported error: none silently cut, none answered twice, none without an answer;
the access log must tell of each once, and as the client saw it. At the end nothing is in flight, drained
replicas have finished all that they held, and memory has not grown. Exit 1 where that does not hold.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil
import uvloop
import yaml
from chaos_answers import Answer, End, judge
from chaos_events import Chaos, Town
from gateway_client import Ask, Client
from gateway_peers.place import free_ports
from result import now, parser_of, stamp, tell

from kilocard.emulator import Emulated, emulated
from kilocard.specs import case_from

RESULT = Path(__file__).parent / "results" / "gateway_chaos.json"
REQUESTS, QUICK_REQUESTS, CLIENTS, ENGINES = 10_000, 2_500, 64, 8
REFUSED_S = 0.5
"""How long a client that was refused waits before its next question."""
HANG_UP_SHARE, HANG_UP_S = 0.025, (0.0, 0.4)
TOKENS = (16, 96)
MODEL, CARD = "qwen3-8b", "h100-sxm"
SETTLE_S = 10.0
WARM_SHARE, MOST_GROWTH_MB = 0.2, 5.0
"""Memory is counted from when this share of the requests have ended; until then buffers and tables fill."""
BAD_ENDS = (End.CUT, End.TWICE, End.UNANSWERED)
LOOK_S = 0.5
START = "from kilocard.cli import main; main()"
TIMES = {"connect_s": 1.0, "first_byte_s": 4.0, "between_chunks_s": 3.0}
PROBE = {"every_s": 2.0, "timeout_s": 2.0}


@dataclass
class Played:
    """What a run leaves."""

    answers: list[Answer]
    happened: Counter[str]
    drained: list[dict[str, Any]]
    failed_events: list[str]
    logged: list[dict[str, Any]] = field(default_factory=list)
    in_flight: dict[str, int] = field(default_factory=dict)
    memory_mb: list[tuple[int, float]] = field(default_factory=list)
    """How many requests had ended, and the gateway's resident memory then."""
    wall_s: float = 0.0


def play(requests: int, seed: int) -> Played:
    """Engines, gateway, clients and chaos, from the start to the end of all."""
    case = case_from({
        "model": MODEL, "card": CARD, "replicas": ENGINES,
        "workload": {"requests": 1, "rate_per_s": 1, "prompt_tokens": 1, "output_tokens": 1},
    })  # fmt: skip
    with emulated(case) as engines, tempfile.TemporaryDirectory() as folder:
        ports = free_ports(3)
        path, cluster = Path(folder) / "cluster.yaml", _cluster(engines, ports, Path(folder))
        path.write_text(yaml.safe_dump(cluster), encoding="utf-8")
        argv = [sys.executable, "-c", START, "gateway", str(path), "--port", str(ports[0]), "--json"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as gateway:
            assert gateway.stdout is not None
            try:
                if b"{" not in gateway.stdout.readline():
                    sys.exit("the gateway did not start")
                town = Town(engines, gateway.pid, ports[1], path, cluster)
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    played = runner.run(_play(town, ports[0], requests, seed))
            finally:
                gateway.terminate()
                gateway.wait(timeout=60)
        log = (Path(folder) / "access.log").read_text(encoding="utf-8")
        played.logged = [row for row in map(json.loads, log.splitlines()) if "sequence" in row]
    return played


def _cluster(engines: Emulated, ports: Sequence[int], folder: Path) -> dict[str, Any]:
    return {
        "name": "chaos",
        "model": engines.model,
        "pools": [{"name": "all", "cap": 24, "replicas": [{"url": url} for url in engines.urls]}],
        "gateway": {
            "port": ports[0],
            "admin": {"port": ports[1]},
            "metrics": {"port": ports[2]},
            "access_log": {"path": str(folder / "access.log")},
            "timeouts": TIMES,
            "health": {"probe": PROBE},
        },
    }


async def _play(town: Town, port: int, requests: int, seed: int) -> Played:
    client, chance, stop = Client([port]), random.Random(seed), asyncio.Event()
    asks = iter([_ask(number, town.engines.model, chance) for number in range(requests)])
    hung_up: dict[str, float] = {
        f"chaos-{number}": chance.uniform(*HANG_UP_S)
        for number in range(requests)
        if chance.random() < HANG_UP_SHARE
    }
    chaos, memory = Chaos(town, seed), list[tuple[int, float]]()
    watching = asyncio.create_task(_watch(town.gateway_pid, client, memory))
    storm = asyncio.create_task(chaos.run(stop))
    began = perf_counter()

    async def work() -> None:
        for ask in asks:
            await _make(client, ask, hung_up.get(ask.request_id))

    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    wall_s = perf_counter() - began
    stop.set()
    await storm
    in_flight = await _settled(town)
    watching.cancel()
    client.close()
    answers = [judge(exchange, exchange.ask.request_id in hung_up) for exchange in client.exchanges]
    drained = [finished(asdict(one), answers) for one in chaos.drained]
    return Played(answers, chaos.happened, drained, chaos.failed, [], in_flight, memory, wall_s)


def _ask(number: int, model: str, chance: random.Random) -> Ask:
    tokens = chance.randint(*TOKENS)
    said = [{"role": "user", "content": f"tell me of the number {chance.getrandbits(64)}"}]
    return Ask(f"chaos-{number}", said, tokens, most_tokens=tokens, model=model)


async def _make(client: Client, ask: Ask, hangs_up_after_s: float | None) -> None:
    if hangs_up_after_s is None:
        exchange = await client.send(ask)
        if exchange.reads and b" 503 " in exchange.reads[0][1][:16]:
            await asyncio.sleep(REFUSED_S)
        return
    try:
        async with asyncio.timeout(hangs_up_after_s):
            await client.send(ask)
    except TimeoutError:
        pass


async def _watch(pid: int, client: Client, memory: list[tuple[int, float]]) -> None:
    process = psutil.Process(pid)
    while True:
        ended = sum(bool(exchange.end) for exchange in client.exchanges)
        memory.append((ended, process.memory_info().rss / 1e6))
        await asyncio.sleep(LOOK_S)


async def _settled(town: Town) -> dict[str, int]:
    """What the gateway counts as in flight once all have ended; it is given a while, for its probes too."""
    until = perf_counter() + SETTLE_S
    while True:
        listed = await asyncio.to_thread(town.listed)
        counts = {row["id"]: row["in_flight"] for row in listed["replicas"]}
        counts |= {"waiting": sum(listed["waiting"].values()), "calls": listed["in_flight"]}
        if not any(counts.values()) or perf_counter() > until:
            return counts
        await asyncio.sleep(0.2)


def finished(drained: dict[str, Any], answers: Sequence[Answer]) -> dict[str, Any]:
    """Of the requests that the replica held when it was told, how many it finished."""
    until = drained["empty"] or float("inf")
    mine = [
        answer
        for answer in answers
        if answer.replica == drained["replica"] and answer.begun < drained["began"] < answer.ended
    ]
    ends = Counter(str(answer.end) for answer in mine)
    late = sum(answer.replica == drained["replica"] and drained["began"] + 0.05 < answer.begun < until
               for answer in answers)  # fmt: skip
    return {**drained, "ends": dict(ends), "sent_afterwards": late}


def account(played: Played) -> dict[str, Any]:
    """Everything that has to hold, as figures."""
    ends = Counter(str(answer.end) for answer in played.answers)
    logged = Counter(row["request_id"] for row in played.logged)
    outcome = {row["request_id"]: row["outcome"] for row in played.logged}
    asked = {answer.request_id for answer in played.answers}
    ok = {answer.request_id for answer in played.answers if answer.end is End.OK}
    told_ok = {request_id for request_id, said in outcome.items() if said == "ok"} & asked
    hung_up = {answer.request_id for answer in played.answers if answer.end is End.HUNG_UP}
    held = _sum(drained["ends"] for drained in played.drained)
    reasons = Counter(f"{answer.end}: {answer.detail}"[:90] for answer in played.answers if answer.detail)
    return {
        "requests": len(played.answers),
        "ends": {str(end): ends.get(str(end), 0) for end in End},
        "reasons": dict(reasons.most_common(12)),
        "happened": dict(played.happened),
        "failed_events": played.failed_events,
        "logged_once": sum(logged[request_id] == 1 for request_id in asked),
        "not_logged": sum(logged[request_id] == 0 for request_id in asked),
        "logged_twice": sum(logged[request_id] > 1 for request_id in asked),
        "ok_but_logged_otherwise": len(ok - told_ok),
        "logged_ok_but_not_received": len(told_ok - ok - hung_up),
        "retried": sum(bool(row.get("retries")) for row in played.logged),
        "in_flight_at_the_end": played.in_flight,
        "drains": len(played.drained),
        "drains_that_emptied": sum(drained["empty"] is not None for drained in played.drained),
        "held_by_the_drained": held,
        "sent_to_the_drained": sum(drained["sent_afterwards"] for drained in played.drained),
        "memory_mb": {
            str(share): _memory_after(played, share) for share in (0.0, WARM_SHARE, (1 + WARM_SHARE) / 2, 1.0)
        },
        "wall_s": played.wall_s,
    }


def _memory_after(played: Played, share: float) -> float:
    """When so much of the requests had ended, or else at the last look."""
    wanted = share * len(played.answers)
    looks = [*(mb for ended, mb in played.memory_mb if ended >= wanted), played.memory_mb[-1][1]]
    return looks[-1] if share == 1 else looks[0]


def _sum(counts: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def misses(figures: dict[str, Any]) -> list[str]:
    """What does not hold."""
    held = figures["held_by_the_drained"]
    grown_mb = figures["memory_mb"]["1.0"] - figures["memory_mb"][str(WARM_SHARE)]
    checks = {
        **{f"{end}: {figures['ends'][end]}": not figures["ends"][end] for end in BAD_ENDS},
        "a request is not in the access log": not figures["not_logged"],
        "a request is in the access log twice": not figures["logged_twice"],
        "the log calls an answer ok that did not arrive": not figures["logged_ok_but_not_received"],
        "the log calls an answer no success that arrived": not figures["ok_but_logged_otherwise"],
        "something is still in flight": not any(figures["in_flight_at_the_end"].values()),
        "a drained replica did not empty": figures["drains"] == figures["drains_that_emptied"],
        "a drained replica did not finish what it held": not set(held) - {"ok", "hung up"},
        "a drained replica was sent more": not figures["sent_to_the_drained"],
        f"memory has grown by {grown_mb:.1f} MB": grown_mb <= MOST_GROWTH_MB,
        f"an event went wrong: {figures['failed_events'][:2]}": not figures["failed_events"],
    }
    return [name for name, holds in checks.items() if not holds]


def show(figures: dict[str, Any]) -> list[str]:
    """The account, for a person."""
    lines = [f"{figures['requests']:,} streamed requests in {figures['wall_s']:.0f} s, while engines were:"]
    lines.append("  " + ", ".join(f"{name} {count} x" for name, count in figures["happened"].items()))
    lines += [f"{count:>7,}  {end}" for end, count in figures["ends"].items()]
    lines += [f"{count:>15,}  {reason}" for reason, count in figures["reasons"].items()]
    held = figures["held_by_the_drained"]
    lines.append(f"{figures['drains']} drains: held {sum(held.values())}, ended {held}; "
                 f"sent afterwards {figures['sent_to_the_drained']}")  # fmt: skip
    lines.append(f"in flight at the end: {sum(figures['in_flight_at_the_end'].values())}")
    lines.append(f"in the access log once {figures['logged_once']:,}, never {figures['not_logged']}, "
                 f"twice {figures['logged_twice']}; tried anew {figures['retried']}")  # fmt: skip
    told = ", ".join(f"{mb:.1f} after {float(share):.0%}" for share, mb in figures["memory_mb"].items())
    lines.append(f"memory of the gateway in MB: {told} of the requests")
    return lines


def main() -> None:
    """Play, account, keep, judge."""
    parser = parser_of(__doc__, "few requests; keeps nothing")
    parser.add_argument("--requests", type=int, help=f"{REQUESTS:,} unless given")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started_at = now()
    requests = options.requests or (QUICK_REQUESTS if options.quick else REQUESTS)
    figures = account(play(requests, options.seed))
    missed = misses(figures)
    engines = f"{ENGINES} x {MODEL} on {CARD}"
    about = stamp("emulated", started_at, engines=engines, seed=options.seed)
    result = {"stamp": about, "figures": figures, "missed": missed}
    tell(result, show(figures), None if options.quick else RESULT, options.json)
    sys.exit(f"does not hold: {'; '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
