"""Numbers that a user gives beside a case: in a line, or in a JSON or YAML file."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import yaml

from kilocard.errors import KilocardError, near_match
from kilocard.facts.yaml_rows import RowLoader
from kilocard.fleet.observation import NOISE, STATISTICS, WHOLE_RUN, Observation, Value
from kilocard.fleet.plausible import require_plausible
from kilocard.specs import Case
from kilocard.specs.text_file import read_short
from kilocard.stats import Quantiles, StageSummary

FITTED = ("ttft_s", "tpot_s", "e2e_s", "itl_s", "output_tokens_per_s")
WRITE_LIKE = (
    "write it like ttft_s=0.05,e2e_s=4.5, or name a file with keys such as ttft_s: {mean: 0.05, p90: 0.06}"
)
BESIDE_NUMBERS = {item.name for item in fields(StageSummary)} | {
    *("errors", "utilization", "preemptions", "prefix_hit_ratio", "steps"),
}
"""What a result of `simulate --json` or `bench --json` tells of a stage besides what is fitted."""

AROUND_STAGES = {
    *("run", "stages", "model", "card", "wall_s", "calibration", "calibration_kind", "expected_error"),
    *("knee", "stamp", "groups", "path", "out", "notes"),
}
"""What such a result holds beside its stages."""


def observation_of_case(case: Case, measured: str) -> Observation:
    """Numbers beside a case: `name=value,…`, or a JSON or YAML file of them, whole or under `run` and
    `stages`."""
    values = require_plausible(tuple(_inline(measured) if "=" in measured else _in_file(measured)))
    if not values:
        raise KilocardError(f"{measured!r} holds nothing to fit: {WRITE_LIKE}")
    return Observation("the case", case, values)


def _inline(text: str) -> Iterator[Value]:
    for part in text.split(","):
        name, _, number = part.partition("=")
        metric, _, statistic = name.strip().partition(".")
        yield _value(WHOLE_RUN, metric, statistic or "mean", number)


def _in_file(path: str) -> Iterator[Value]:
    raw = _read(path)
    if not isinstance(raw, Mapping):
        raise KilocardError(f"{path} holds no measurements: {WRITE_LIKE}")
    if "run" not in raw and "stages" not in raw:
        yield from _numbers(WHOLE_RUN, raw)
        return
    _require_known(raw, AROUND_STAGES)
    stages = raw.get("stages") or []
    if not isinstance(stages, list):
        raise KilocardError(f"stages is {reprlib.repr(stages)}: give a list, a stage each")
    for place, content in enumerate(stages):
        named = _mapping(f"stages[{place}]", content)
        yield from _numbers(_stage(named.get("stage", place)), named)
    if not stages:
        yield from _numbers(WHOLE_RUN, _mapping("run", raw.get("run")))


def _read(path: str) -> Any:
    try:
        text = read_short(path)
        try:
            return (
                json.loads(text, object_pairs_hook=_each_once)
                if text.lstrip().startswith("{")
                else _yaml(text)
            )
        except json.JSONDecodeError:
            return _yaml(text)
    except (
        OSError,
        ValueError,
        TypeError,
        ArithmeticError,
        RuntimeError,
        yaml.YAMLError,
        KilocardError,
    ) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        reason = getattr(error, "strerror", None) or " ".join(said.split())
        raise KilocardError(f"cannot read the measurements {path}: {reason}; {WRITE_LIKE}") from error


def _yaml(text: str) -> Any:
    return yaml.load(text, Loader=RowLoader)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a key that is there twice is refused, as in YAML."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise KilocardError(f"{name[:60]!r} is there twice")
        found[name] = value
    return found


def _mapping(where: str, content: Any) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise KilocardError(f"{where} is {reprlib.repr(content)}, no keys and numbers: {WRITE_LIKE}")
    return content


def _stage(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise KilocardError(f"stage is {reprlib.repr(given)}: give its number in the case, from 0")
    return given


def _numbers(stage: int, content: Mapping[str, Any]) -> Iterator[Value]:
    _require_known(content, BESIDE_NUMBERS)
    for metric in FITTED:
        given = content.get(metric)
        if isinstance(given, Mapping):
            yield from _statistics(stage, metric, given)
        elif given is not None:
            yield _value(stage, metric, "mean", given)


def _require_known(content: Mapping[str, Any], beside: set[str]) -> None:
    known = {*FITTED, "run", "stages"} if beside is BESIDE_NUMBERS else beside
    for name in content:
        if name not in beside and name not in known:
            raise KilocardError(
                f"unknown key {str(name)[:60]!r} in the measurements: {near_match(str(name), known)}"
            )


def _statistics(stage: int, metric: str, given: Mapping[str, Any]) -> Iterator[Value]:
    """Every statistic that is fitted; whole quantiles, which have their `n`, may hold others too."""
    beside = {item.name for item in fields(Quantiles)} if "n" in given else set()
    for statistic, number in given.items():
        if statistic in STATISTICS:
            if number is not None:
                yield _value(stage, metric, statistic, number)
        elif statistic not in beside:
            raise KilocardError(
                f"unknown statistic {metric}.{str(statistic)[:60]}: {near_match(str(statistic), STATISTICS)}"
            )


def _value(stage: int, metric: str, statistic: str, given: Any) -> Value:
    if metric not in NOISE:
        raise KilocardError(f"measured {metric[:60]!r} is unknown: {near_match(metric, NOISE)}; {WRITE_LIKE}")
    try:
        number = float("nan") if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not abs(number) < float("inf"):
        raise KilocardError(f"measured {metric}={reprlib.repr(given)} is no number: {WRITE_LIKE}")
    return Value(stage, metric, statistic, number)
