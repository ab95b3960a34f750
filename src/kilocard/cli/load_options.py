"""What the options of `kilocard bench` and `report` ask for, each refused in one line that names it."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, cast, get_args

from pydantic import ValidationError

from kilocard.errors import KilocardError
from kilocard.specs import SLO
from kilocard.workload import Arrivals, Fixed, Process, Workload

if TYPE_CHECKING:
    from kilocard.load.target import Endpoint

SLO_FIELDS = {"ttft": "ttft_p99_s", "tpot": "tpot_p99_s", "e2e": "e2e_p99_s"}
DEFAULT_DURATION_S = 30.0
LEAST_DURATION_S, MOST_DURATION_S = 0.001, 1e6


def shape_of(process: str, cv: float) -> Arrivals:
    """`--arrivals` and `--cv`, at a rate of 1."""
    if process not in get_args(Process):
        raise KilocardError(f"unknown --arrivals {process!r}: use {', '.join(get_args(Process))}")
    return Arrivals(1.0, cast(Process, process), cv)


def endpoint_of(name: str) -> Endpoint:
    """`--endpoint`."""
    from kilocard.load.target import Endpoint  # who simulates needs no client

    if name not in get_args(Endpoint):
        raise KilocardError(f"unknown --endpoint {name!r}: use {', '.join(get_args(Endpoint))}")
    return cast(Endpoint, name)


def open_loads(
    rates: str,
    requests: int | None,
    duration: float | None,
    shape: Arrivals,
    prompt_tokens: int,
    output_tokens: int,
    seed: int,
) -> list[Workload]:
    """A workload for each rate of `--rate`."""
    loads = []
    for rate in numbers_of(rates, float, "--rate"):
        arriving = Arrivals(rate, shape.process, shape.cv)
        lasting = DEFAULT_DURATION_S if duration is None else duration
        count = max(1, round(rate * lasting)) if requests is None else requests
        loads.append(Workload(count, Fixed(prompt_tokens), Fixed(output_tokens), arriving, seed=seed))
    return loads


def require_duration(duration: float | None, rate: str) -> None:
    """`--duration`, which a closed loop does not have."""
    if duration is None:
        return
    if not LEAST_DURATION_S <= duration <= MOST_DURATION_S:
        raise KilocardError(
            f"--duration {duration} s is not possible: use {LEAST_DURATION_S:g} to {MOST_DURATION_S:,.0f} s"
        )
    if not rate:
        raise KilocardError(
            f"--duration {duration:g} s is of open-loop stages: give --rate too, or --requests"
        )


def numbers_of(text: str, kind: type, option: str) -> list[Any]:
    """`1,8,64`."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError as error:
        raise KilocardError(f"{option} {text!r} is no list of numbers: write it like 1,8,64") from error


def slo_of(text: str) -> SLO | None:
    """`--slo ttft=0.5,tpot=0.05`; None where it is left out."""
    if not text:
        return None
    limits = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        limit = name.strip().removesuffix("_s")
        if limit not in SLO_FIELDS:
            raise KilocardError(
                f"--slo {text!r}: unknown limit {name.strip()!r}; write it like ttft=0.5,tpot=0.05"
            )
        if SLO_FIELDS[limit] in limits:
            raise KilocardError(f"--slo {text!r}: {limit} is there twice; give each limit once")
        limits[SLO_FIELDS[limit]] = value
    try:
        slo = SLO.model_validate(limits)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise KilocardError(f"--slo {text!r}: {reason}; write it like ttft=0.5,tpot=0.05") from error
    if not all(isfinite(limit) for limit in slo.model_dump(exclude_none=True).values()):
        raise KilocardError(f"--slo {text!r}: a limit is no finite number; write it like ttft=0.5,tpot=0.05")
    return slo
