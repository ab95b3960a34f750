"""The task: read an order and write it down as JSON, which may parse and still be wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

TOKENS = 32
FIELDS = ("name", "count", "item", "city")
SHOWN = """Text: Mara orders 3 lamps to Oslo.
JSON: {"name": "Mara", "count": 3, "item": "lamps", "city": "Oslo"}

Text: Two chairs go to Lima for Ben.
JSON: {"name": "Ben", "count": 2, "item": "chairs", "city": "Lima"}

"""


@dataclass(frozen=True, slots=True)
class Order:
    """A sentence and what it says."""

    text: str
    name: str
    count: int
    item: str
    city: str

    @property
    def asked(self) -> str:
        """The prompt's tail, after the examples."""
        return f"Text: {self.text}\nJSON:"

    def right_fields(self, answer: str) -> float:
        """The share of the four fields in which an answer says what the sentence says."""
        said: Mapping[str, object] = parsed(answer) or {}
        right: list[bool] = [said.get(field) == getattr(self, field) for field in FIELDS]
        return fmean(map(float, right))


def parsed(answer: str) -> dict[str, object] | None:
    """The JSON object on an answer's first line, or None where there is none."""
    try:
        value = json.loads(answer.strip().split("\n")[0])
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


ORDERS = (
    Order("Ana buys 7 spoons in Rome.", "Ana", 7, "spoons", "Rome"),
    Order("Please send 4 books to Tom in Paris.", "Tom", 4, "books", "Paris"),
    Order("Leo wants 12 plates, delivered to Madrid.", "Leo", 12, "plates", "Madrid"),
    Order("Five tables for Nora in Berlin.", "Nora", 5, "tables", "Berlin"),
    Order("Omar needs 9 mirrors in Cairo.", "Omar", 9, "mirrors", "Cairo"),
    Order("Ivy asked for 6 cups; she lives in Dublin.", "Ivy", 6, "cups", "Dublin"),
    Order("Send Kai 10 shirts to Tokyo.", "Kai", 10, "shirts", "Tokyo"),
    Order("Eight clocks for Lena in Vienna.", "Lena", 8, "clocks", "Vienna"),
    Order("Raj ordered 15 boxes to Delhi.", "Raj", 15, "boxes", "Delhi"),
    Order("Sofia in Athens wants 2 maps.", "Sofia", 2, "maps", "Athens"),
    Order("Max takes 20 bags to London.", "Max", 20, "bags", "London"),
    Order("Nina orders 11 hats to Prague.", "Nina", 11, "hats", "Prague"),
)
