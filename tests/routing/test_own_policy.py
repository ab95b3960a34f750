"""Policies of a user's own: what they may be, and that a fault is one line, the same compiled and not."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from kilocard.errors import KilocardError
from kilocard.fleet import simulate_case
from kilocard.routing.chance import below
from kilocard.specs import Case, case_from


def the_case() -> Case:
    asked = {"rate_per_s": 20, "requests": 30, "prompt_tokens": 512, "output_tokens": 5}
    return case_from({"model": "qwen3-8b", "card": "h100-sxm", "replicas": 3, "workload": asked})


def least_per_weight(replicas, arrival, random):
    return int(np.argmin(replicas.active / replicas.weight))


def any_of_them(replicas, arrival, random):
    return below(random, len(replicas.active))


def far_outside(replicas, arrival, random):
    return replicas.active[100_000_000]


def one_too_far(replicas, arrival, random):
    best = 0
    for r in range(len(replicas.active) + 1):
        if replicas.active[r] < replicas.active[best]:
            best = r
    return best


def complains(replicas, arrival, random):
    if arrival.prompt_tokens > 5:
        raise ValueError("too long")
    return 0


def a_share(replicas, arrival, random):
    return 1.7


def no_number(replicas, arrival, random):
    return float("nan")


def a_truth(replicas, arrival, random):
    return replicas.active[0] == 0


def forgets(replicas, arrival, random):
    len(replicas.active)


def forgets_at_times(replicas, arrival, random):
    return 0 if arrival.prompt_tokens < 5 else None


def by_pace(replicas, arrival, random):
    return int(np.argmin((replicas.active + 1) * replicas.tpot_s + replicas.prefill_s))


def the_fourth(replicas, arrival, random):
    return 3


def below_nobody(replicas, arrival, random):
    return -7


def nobody(replicas, arrival, random):
    return -1


def too_few(replicas, arrival):
    return 0


def too_many(replicas, arrival, random, more=0):
    return 0


def yields(replicas, arrival, random):
    yield 0


class AnObject:
    def __call__(self, replicas, arrival, random):
        return 0

    def __repr__(self) -> str:
        return "AnObject()"


FAULTS: dict[str, tuple[Any, str]] = {
    "an index far outside": (far_outside, "far_outside fails with IndexError"),
    "an index one too far": (one_too_far, "one_too_far fails with IndexError"),
    "an error of its own": (complains, "complains fails with ValueError (too long)"),
    "a float": (a_share, "a_share returns a float, no whole number"),
    "no number": (no_number, "no_number returns a float, no whole number"),
    "a truth": (a_truth, "a_truth returns a bool, no whole number"),
    "nothing": (forgets, "forgets returns None, no whole number"),
    "nothing at times": (forgets_at_times, "forgets_at_times returns None, no whole number"),
    "above": (the_fourth, "the_fourth named replica 3 for 30 of them, and there are 0 to 2"),
    "below": (below_nobody, "below_nobody named replica -7 for 30 of them"),
    "nobody": (nobody, "30 of 30 requests have no answer: the policy nobody named replica -1"),
    "two arguments": (too_few, "(replicas, arrival) takes other arguments"),
    "four arguments": (too_many, "takes other arguments"),
    "a generator": (yields, "yields yields or awaits"),
    "an object": (AnObject(), "AnObject() is no policy"),
    "a partial": (functools.partial(nobody), "is no policy: give a function made by def"),
    "a number": (5, "5 is no policy"),
    "a name": ("round-robin", "'round-robin' is no policy"),
    "zero": (0, "0 is no policy"),
}


def told(policy: Any) -> str:
    try:
        simulate_case(the_case(), policy)
    except KilocardError as refusal:
        return str(refusal)
    return "nothing"


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_line_that_names_it(name: str) -> None:
    policy, said = FAULTS[name]
    line = told(policy)
    assert said in line
    assert "\n" not in line and len(line) < 400


def test_plain_python_tells_the_same() -> None:
    program = (
        "import os; os.environ['NUMBA_DISABLE_JIT'] = '1'; import json, test_own_policy as t; "
        "print(json.dumps({name: t.told(policy) for name, (policy, _) in t.FAULTS.items()}))"
    )
    plain = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True, cwd=__file__.rpartition("/")[0],
    )  # fmt: skip
    for name, line in json.loads(plain.stdout).items():
        compiled = told(FAULTS[name][0])
        assert FAULTS[name][1] in line
        if "IndexError" not in line and "0x" not in line:
            assert line == compiled


@pytest.mark.parametrize("policy", [least_per_weight, any_of_them, by_pace])
def test_arrays_and_chance_are_allowed(policy: Any) -> None:
    run, _ = simulate_case(the_case(), policy)
    assert set(run.requests["replica"]) == {"0", "1", "2"}


def imports(replicas, arrival, random):
    import math

    return math.floor(0.5)


def misspelt(replicas, arrival, random):
    return replicas.mood[0]


def half_a_place(replicas, arrival, random):
    return replicas.active[arrival.prompt_tokens / 2]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (imports, "IMPORT_NAME"),
        (misspelt, "Unknown attribute 'mood' of Replicas"),
        (half_a_place, "Unsupported array index type float64"),
    ],
)
def test_why_it_cannot_be_compiled(policy: Any, reason: str) -> None:
    line = told(policy)
    assert f"{policy.__name__} cannot be compiled" in line and reason in line
    first = policy.__code__.co_firstlineno
    assert any(f"in line {number})" in line for number in range(first, first + 4))
    assert "\n" not in line and "Failed in nopython" not in line
