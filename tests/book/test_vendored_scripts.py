"""The vendored scripts are the ones that their table names."""

import hashlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.book

VENDOR = Path(__file__).parents[2] / "book" / "_static" / "vendor"
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in (VENDOR / "VENDOR.md").read_text().splitlines()
    if line.count("|") == 6 and not line.startswith(("| file", "|---"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_vendored_file_has_its_checksum(row: list[str]) -> None:
    assert hashlib.sha256((VENDOR / row[0]).read_bytes()).hexdigest() == row[4]


def test_every_vendored_file_is_in_the_table() -> None:
    files = {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file()}
    assert files - {"VENDOR.md"} == {row[0] for row in ROWS}
