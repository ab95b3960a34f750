"""A policy in a file: what a cluster file may name, and what a notebook's function needs to get there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilocard.errors import KilocardError
from kilocard.routing.chance import new_random
from kilocard.routing.own_file import policy_at, written
from kilocard.routing.policies import POLICIES, compile_policy
from kilocard.routing.replicas import Arrival, new_replicas
from kilocard.specs.cluster import read_cluster

MORE = 3


def last(replicas, arrival, random):
    return len(replicas.active) - 1


def with_a_number_from_outside(replicas, arrival, random):
    return MORE % len(replicas.active)


def active(replicas, arrival, random):
    return 0 if replicas.active[0] == 0 else -1


def emptiest(replicas, arrival, random):
    return int(np.argmin(replicas.active))


def choose(policy: Any) -> int:
    return int(policy(new_replicas(4), Arrival(10, 10, 0, 0), new_random(1)))


def test_a_function_goes_through_a_file_unchanged(tmp_path: Path) -> None:
    (named,) = written([last], tmp_path / "own.py")
    policy = policy_at(named)
    assert policy_at(named) is policy, "read again, the same text is the same function"
    assert choose(policy) == choose(compile_policy(policy)) == 3  # type: ignore[arg-type]


def test_a_changed_file_is_another_function(tmp_path: Path) -> None:
    (named,) = written([last], tmp_path / "own.py")
    first = policy_at(named)
    (tmp_path / "own.py").write_text("def last(replicas, arrival, random):\n    return 1\n")
    assert choose(policy_at(named)) == 1
    assert choose(first) == 3


@pytest.mark.parametrize("name", [*POLICIES, "no-such", "a:b", "mine.py"])
def test_what_names_no_file_is_left_as_it_is(name: str) -> None:
    assert policy_at(name) == name


def test_several_go_into_one_file(tmp_path: Path) -> None:
    names = written([last, active], tmp_path / "own.py")
    assert [choose(policy_at(name)) for name in names] == [3, 0]


def test_the_modules_that_it_uses_come_along(tmp_path: Path) -> None:
    (named,) = written([emptiest], tmp_path / "own.py")
    assert choose(policy_at(named)) == 0


def made_with(value: int) -> Any:
    def closed(replicas, arrival, random):
        return value

    return closed


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (with_a_number_from_outside, "with_a_number_from_outside uses MORE from outside"),
        (made_with(2), "closed uses value from outside"),
        (5, "5 is no policy"),
        ("least-delay", "'least-delay' is no policy"),
    ],
)
def test_what_a_gateway_could_not_run_is_refused(policy: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(KilocardError, match=said):
        written([policy], tmp_path / "own.py")


def test_a_policy_without_lines_is_refused(tmp_path: Path) -> None:
    content: dict[str, Any] = {}
    exec("def typed(replicas, arrival, random):\n    return 0\n", content)
    with pytest.raises(KilocardError, match="no lines of typed are found"):
        written([content["typed"]], tmp_path / "own.py")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read the policy .*mine.py:fewest: No such file"),
        ("def fewer(replicas, arrival, random):\n    return 0\n", "no policy 'fewest': did you mean 'fewer'"),
        ("def fewest(replicas):\n    return 0\n", "fewest.* takes other arguments"),
        ("fewest = 3\n", "3 is no policy"),
        ("def fewest(:\n", "mine.py fails with SyntaxError"),
        ("1 / 0\n", "mine.py fails with ZeroDivisionError"),
        ("raise SystemExit(3)\n", "mine.py fails with SystemExit"),
        ("raise KeyboardInterrupt\n", "mine.py fails with KeyboardInterrupt"),
        (b"\xff\xfe", "cannot read the policy .*: it is no text"),
    ],
)
def test_a_file_that_holds_none_is_told_in_one_line(text: Any, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "mine.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(KilocardError, match=said) as refused:
        policy_at(f"{tmp_path}/mine.py:fewest")
    assert "\n" not in str(refused.value)


def test_a_cluster_file_names_one_beside_itself(tmp_path: Path) -> None:
    written([last], tmp_path / "own.py")
    (tmp_path / "cluster.yaml").write_text(
        "name: c\nmodel: m\npools: [{name: chat, replicas: ['http://127.0.0.1:1']}]\n"
        "gateway: {policy: 'own.py:last'}\n"
    )
    policy = policy_at(read_cluster(tmp_path / "cluster.yaml").gateway.policy)
    assert choose(policy) == 3
