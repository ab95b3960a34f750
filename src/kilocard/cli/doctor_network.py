"""`kilocard doctor listen` and `kilocard doctor network`: the wire between two machines."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kilocard.cli.output import plain, print_json
from kilocard.errors import KilocardError

if TYPE_CHECKING:
    from kilocard.network import Meaning, NetworkResult, Step

NO_LOCK = "it has no authentication, so stop it (Ctrl-C) when the test is done"
CROOKED = 0.15
"""A median error of the fit that is said aloud."""
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def listen(
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for all, so that others reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 7790,
    as_json: JsonOption = False,
) -> None:
    """Answer network tests until Ctrl-C. Without --host only this machine reaches it."""
    from kilocard.network import Listener
    from kilocard.network.protocol import place_of

    listener = Listener(host, port, _say)
    shown, taken = listener.address
    with _until_stopped():
        if as_json:
            print_json({"host": shown, "port": taken, "authentication": False})
        else:
            print(f"listening on {place_of(shown, taken)}; {NO_LOCK}{_loopback_only(shown)}", flush=True)
        listener.serve()
    listener.close()
    if not as_json:
        print(f"stopped; {listener.served} connections were served", flush=True)


def network(
    place: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where `kilocard doctor listen` runs.")],
    streams: Annotated[int, typer.Option(help="Connections at once, beside the test with one.")] = 4,
    ranks: Annotated[int, typer.Option(help="Of the collectives that are judged.")] = 2,
    hidden: Annotated[int, typer.Option(help="Hidden size of the model.")] = 8192,
    layers: Annotated[int, typer.Option(help="Layers of the model.")] = 80,
    batch: Annotated[int, typer.Option(help="Tokens of a decode step.")] = 32,
    tokens: Annotated[int, typer.Option(help="Tokens of a prefill chunk.")] = 2048,
    step_s: Annotated[
        float | None, typer.Option(help="Normal time of the longest step, in seconds, for the time-out.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the wire to another machine, and say what it is enough for; 10 s at the most."""
    from kilocard.network import DEFAULT_TIMEOUTS, Step, collective_timeout_s, meaning_of, measure_network

    step = Step(ranks, hidden, layers, batch, tokens)
    if step_s is not None:
        collective_timeout_s(step_s)
    host, port = host_and_port(place)
    result = measure_network(host, port, streams=streams)
    meaning = meaning_of(result.wire, step, result.bytes_per_s, step_s)
    if as_json:
        print_json(
            {
                "measured": {**asdict(result), "bytes_per_s": result.bytes_per_s},
                "step": asdict(step),
                "derived": asdict(meaning),
                "defaults": [asdict(default) for default in DEFAULT_TIMEOUTS],
            }
        )
    else:
        print("\n".join([*_measured(result), *_derived(meaning, step), *_timeouts(meaning, step_s)]))


def host_and_port(text: str) -> tuple[str, int]:
    """The parts of `host:port`; an IPv6 address stands in brackets."""
    named = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]{1,253})):(\d{1,5})", text, re.ASCII)
    if not named or not 1 <= int(named[3]) <= 65_535:
        raise KilocardError(f"{text[:80]!r} is no HOST:PORT: write it like 10.0.0.2:7790 or [fd00::2]:7790")
    return named[1] or named[2], int(named[3])


def _measured(result: NetworkResult) -> Iterator[str]:
    p99 = f", P99 {_time(result.round_trip_p99_s)}" if result.round_trip_p99_s is not None else ""
    yield f"round trip    P50 {_time(result.round_trip_p50_s)}{p99} ({result.round_trips} of 64 B; measured)"
    for rate in result.rates:
        streams = f"{rate.streams} stream{'s' if rate.streams > 1 else ''}"
        there, back = _rate(rate.up_bytes_per_s), _rate(rate.down_bytes_per_s)
        yield f"{streams:<13} {there} there, {back} back (measured)"
    for trip in result.trips:
        yield f"{_size(trip.size_bytes):<13} {_time(trip.median_s)} one way (median of {trip.n}; measured)"
    fitted, off = result.fit.wire, result.fit.median_error
    crooked = ": no straight line, so count on the rate for what is large" if off > CROOKED else ""
    yield (
        f"fitted line   {_time(fitted.start_s)} + bytes / {_rate(fitted.bytes_per_s)}, "
        f"median error {off:.0%}{crooked}"
    )
    yield f"took {result.took_s:.1f} s and {result.moved_bytes / 1e9:.2f} GB"


def _derived(meaning: Meaning, step: Step) -> Iterator[str]:
    size = f"{step.ranks} ranks, {step.layers} layers of {step.hidden}"
    yield from (
        "",
        f"like          a wire of {meaning.like}, as far as Python drives it",
        f"replicas      {_count(meaning.requests_per_s)} requests/s of 100 kB (text, events; estimated);",
        f"{'':<13} replicas of a dense model put nothing else on it",
        f"TP over it    {size}: a decode step of {step.batch} waits {_time(meaning.decode_step_s)}",
        f"{'':<13} in allreduces (two a layer, {_time(meaning.decode_allreduce_s)} each): "
        f"{_count(meaning.decode_steps_per_s_at_most)} tokens/s a request at most",
        f"{'':<13} a chunk of {step.tokens} tokens waits {_time(meaning.prefill_step_s)} "
        f"({_time(meaning.prefill_allreduce_s)} each); derived, as rings",
    )


def _timeouts(meaning: Meaning, step_s: float | None) -> Iterator[str]:
    from kilocard.network.timeouts import CAVEATS, DEFAULT_TIMEOUTS, LATEST, SOONEST

    soonest, latest = meaning.timeout_s
    span = f"{soonest} s" if soonest == latest else f"{soonest} to {latest} s"
    of = "the longest allreduce" if step_s is None else "a step"
    yield ""
    yield (
        f"time-out      {span}: {SOONEST} to {LATEST} x {_time(meaning.normal_s)}, the normal time of {of}, "
        "in whole s"
    )
    yield from (f"{'':<13} {caveat}" for caveat in CAVEATS)
    for default in DEFAULT_TIMEOUTS:
        yield f"{'':<13} unless set, {default.name}: {default.seconds} s ({default.set_by})"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.3g} GB/s" if bytes_per_s >= 1e8 else f"{bytes_per_s / 1e6:.3g} MB/s"


def _size(size_bytes: int) -> str:
    return f"{size_bytes // 2**20} MiB" if size_bytes >= 2**20 else f"{size_bytes // 2**10} KiB"


def _say(line: str) -> None:
    """In one go with its end, since threads say: two lines never run into one."""
    sys.stderr.write(f"{plain(line)}\n")
    sys.stderr.flush()


def _loopback_only(host: str) -> str:
    with contextlib.suppress(ValueError):
        if ip_address(host).is_loopback:
            return "\nonly this machine reaches it: --host 0.0.0.0, or the address of a NIC, lets others in"
    return ""


@contextlib.contextmanager
def _until_stopped() -> Iterator[None]:
    """SIGTERM and Ctrl-C end this block, and are no error."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)
