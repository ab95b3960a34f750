"""`kilocard simulate SCENARIO.yaml`: a whole cluster file in virtual time."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kilocard.cli.output import print_json, print_pairs
from kilocard.errors import KilocardError
from kilocard.specs.scenario import Scenario, read_scenario
from kilocard.specs.text_file import read_short

MOST_EVENTS = 20
Progress = Callable[[int, int], None] | None


def is_scenario(path: Path | None) -> bool:
    """Whether a file has a cluster in it; one that cannot be read is left to who reads cases, and so is a
    pipe, which can be read only once."""
    try:
        is_file = path is not None and path.expanduser().is_file()
        return is_file and bool(re.search(r"^cluster\s*:", read_short(path or ""), re.MULTILINE))
    except (OSError, ValueError, KilocardError):
        return False


def scenario_of(path: Path, given: dict[str, Any]) -> Scenario:
    """The file's, with another seed or policy where they are given; it says everything else itself."""
    seed, policy = given.pop("seed", None), given.pop("policy", None)
    if vain := sorted(given):
        raise KilocardError(
            f"{path} is a scenario and says itself what is simulated: leave out {', '.join(vain)}, or write "
            "it there; only --seed, --seeds, --policy, --out and --json go beside one"
        )
    scenario = read_scenario(path)
    if seed is not None:
        scenario = scenario.model_copy(update={"seed": seed})
    if policy is not None:
        gateway = scenario.cluster.gateway.model_copy(update={"policy": policy})
        scenario = scenario.model_copy(
            update={"cluster": scenario.cluster.model_copy(update={"gateway": gateway})}
        )
    return scenario


def report(scenario: Scenario, seeds: int, out: Path | None, progress: Progress) -> dict[str, Any]:
    """What one simulation comes to, and over seeds how far it may be off."""
    from kilocard.cluster.result import as_run, result_of
    from kilocard.cluster.simulate import simulate_scenario

    outcome = simulate_scenario(scenario, progress=progress)
    if out:
        as_run(outcome).write(out)
    result = result_of(outcome)
    if seeds > 1:
        result["seeds"] = intervals(scenario, seeds)
    return result


def intervals(scenario: Scenario, seeds: int) -> dict[str, Any]:
    """Of each number, its mean over seeds and the bounds of 95 % around it."""
    from dataclasses import asdict

    from kilocard.cluster.sweep import over_seeds, sweep
    from kilocard.stats.interval import mean_interval

    found = [_flat(asdict(each)) for each in sweep(over_seeds(scenario, seeds))]
    return {
        name: asdict(mean_interval([each[name] for each in found]))
        for name in found[0]
        if all(each[name] is not None for each in found)
    }


def _flat(told: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in told.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{part}": number for part, number in value.items() if part != "n"}
        else:
            flat[name] = value
    return flat


def show(result: dict[str, Any], as_json: bool, trust: str, pairs: list[tuple[str, str]]) -> None:
    """As one object or as a table."""
    if as_json:
        print_json(result)
        return
    whole = result["run"]
    ends = [
        (name, f"{whole[name]:,}") for name in ("ok", "refused", "timeouts", "errors", "in_flight", "retries")
    ]
    events = result["events"]
    notes = [
        *(f"{it['t_s']:,.1f} s: {it['event']} {it['about']}" for it in events[:MOST_EVENTS]),
        *([f"and {len(events) - MOST_EVENTS} events more: see --json"] if len(events) > MOST_EVENTS else []),
        *([_over_seeds(result["seeds"])] if "seeds" in result else []),
        trust,
    ]
    title = f"simulated: {result['cluster']}, {whole['arrived']:,} requests, in {result['wall_s']:.2f} s:"
    print_pairs(title, [*pairs, *ends], notes)


def _over_seeds(told: dict[str, Any]) -> str:
    shown = []
    for name, label in (("ttft_s.p99", "TTFT p99"), ("tpot_s.p99", "TPOT p99")):
        if name in told:
            low, high = (1e3 * told[name][side] for side in ("low", "high"))
            shown.append(f"{label} {low:,.4g} to {high:,.4g} ms")
    count = next(iter(told.values()))["n"] if told else 0
    return f"means over {count} seeds, with 95 % confidence: {', '.join(shown) or 'no percentiles'}"
