"""The task: an answer parses or not, and each of its fields is right or not."""

import pytest

from kilocard.quality.orders import ORDERS, parsed

ORDER = ORDERS[0]
RIGHT = ' {"name": "Ana", "count": 7, "item": "spoons", "city": "Rome"}\n\nText: more'


@pytest.mark.parametrize(
    ("answer", "share"),
    [
        (RIGHT, 1.0),
        (RIGHT.replace("Rome", "Lima"), 0.75),
        (RIGHT.replace("7", '"7"'), 0.75),
        ('{"name": "Ana"}', 0.25),
        ('{"name": "Ana", "count": 7', 0.0),
        ("[1]", 0.0),
        ("", 0.0),
    ],
)
def test_fields_are_counted_one_by_one(answer: str, share: float) -> None:
    assert ORDER.right_fields(answer) == share


def test_only_an_object_on_the_first_line_counts() -> None:
    assert parsed(RIGHT) == {"name": "Ana", "count": 7, "item": "spoons", "city": "Rome"}
    assert parsed("[1]") is None
    assert parsed('\n{"a": 1}') == {"a": 1}
    assert parsed("") is None


def test_every_order_says_what_it_is_asked_for() -> None:
    assert len({order.name for order in ORDERS}) == len(ORDERS)
    for order in ORDERS:
        assert order.name in order.text
        assert order.city in order.text
        assert order.item in order.text
