"""Many scenarios, as many at once as there are cores; what is done is kept, so that a sweep goes on where it
was cut off."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from kilocard.cluster.simulate import simulate_scenario
from kilocard.cluster.summary import Summary, summary_of
from kilocard.engine_model.compiled import sources_digest
from kilocard.errors import KilocardError
from kilocard.specs.scenario import Scenario
from kilocard.stats.latency import Quantiles

LATENCIES = ("ttft_s", "tpot_s", "e2e_s")


def over_seeds(scenario: Scenario, count: int) -> list[Scenario]:
    """The same with so many seeds, its own first."""
    if count < 1:
        raise KilocardError(f"{count} seeds: give 1 or more")
    return [scenario.model_copy(update={"seed": scenario.seed + k}) for k in range(count)]


def sweep(
    scenarios: Sequence[Scenario],
    keep: Path | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Summary]:
    """Each one's numbers, in order; with `keep`, a folder, none is simulated twice by the same sources."""
    found = {k: its for k, each in enumerate(scenarios) if (its := _kept(keep, each)) is not None}
    missing = [k for k in range(len(scenarios)) if k not in found]
    done = (
        (k, its)
        for k, its in zip(missing, _simulated([scenarios[k] for k in missing], keep, jobs), strict=True)
    )
    for k, its in done:
        found[k] = its
        if progress:
            progress(len(found), len(scenarios))
    return [found[k] for k in range(len(scenarios))]


def _simulated(scenarios: Sequence[Scenario], keep: Path | None, jobs: int | None) -> Iterator[Summary]:
    """The first one here, so that the loop is compiled once and not by each process."""
    from joblib import Parallel, delayed

    if scenarios:
        yield numbers_of(scenarios[0], keep)
    rest = scenarios[1:]
    if len(rest) < 2 or jobs == 1:
        yield from (numbers_of(each, keep) for each in rest)
    else:
        at_once = Parallel(n_jobs=jobs or os.cpu_count(), return_as="generator")
        yield from at_once(delayed(numbers_of)(each, keep) for each in rest)


def numbers_of(scenario: Scenario, keep: Path | None = None) -> Summary:
    """One simulation's, which are kept."""
    its = summary_of(simulate_scenario(scenario))
    if keep is not None:
        _write(keep, scenario, its)
    return its


def _place(keep: Path, scenario: Scenario) -> Path:
    told = f"{sources_digest()} {scenario.model_dump_json()}"
    return keep / f"{hashlib.sha256(told.encode()).hexdigest()[:32]}.json"


def _write(keep: Path, scenario: Scenario, its: Summary) -> None:
    place = _place(keep, scenario)
    partial = place.with_name(f".{uuid4().hex}.part")
    try:
        keep.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(asdict(its)), encoding="utf-8")
        partial.replace(place)
    except OSError as error:
        raise KilocardError(
            f"cannot keep a sweep in {keep}: {error.strerror}; name another folder"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _kept(keep: Path | None, scenario: Scenario) -> Summary | None:
    """What was kept and cannot be read is simulated again."""
    if keep is None:
        return None
    try:
        told = json.loads(_place(keep, scenario).read_text(encoding="utf-8"))
        return Summary(**{**told, **{name: Quantiles(**told[name]) for name in LATENCIES}})
    except (OSError, ValueError, TypeError, LookupError):
        return None
