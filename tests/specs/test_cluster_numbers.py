"""Every number of a cluster file has bounds, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from kilocard.specs import ClusterSpec
from kilocard.specs.written import Written

HUGE = 10**30


def parts_of(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from parts_of(part)


def sections(kind: type[Written], seen: set[type[Written]]) -> set[type[Written]]:
    """This part of a cluster file and all that stand in it, in lists and where they may be left out too."""
    if kind not in seen:
        seen.add(kind)
        for field in kind.model_fields.values():
            for part in parts_of(field.annotation):
                if isinstance(part, type) and issubclass(part, Written):
                    sections(part, seen)
    return seen


NUMBERS = sorted(
    (
        (kind, name)
        for kind in sections(ClusterSpec, set())
        for name, field in kind.model_fields.items()
        if {int, float} & set(parts_of(field.annotation))
    ),
    key=lambda place: (place[0].__name__, place[1]),
)
NO_NUMBERS = [True, -1, HUGE, float("nan"), float("inf"), "x", [], {}]


@pytest.mark.parametrize(("kind", "name"), NUMBERS, ids=[f"{kind.__name__}.{name}" for kind, name in NUMBERS])
def test_every_number_has_bounds(kind: type[Written], name: str) -> None:
    for value in NO_NUMBERS:
        with pytest.raises(ValueError, match=name):
            kind.model_validate({name: value})


def test_numbers_were_found() -> None:
    assert len(NUMBERS) > 100
