"""Memory in huge pages: which blocks are whole, and that the system really gives what is said."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from kilocard.gateway.pages import HUGE_BYTES, huge_blocks

SHOWN = "{:x}-{:x} {} 00000000 00:00 0 {}\n"
GROWN = """
import re
from pathlib import Path
from kilocard.gateway.pages import use_huge_pages

def huge_bytes():
    told = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * int(re.search(r"AnonHugePages:\\s+(\\d+) kB", told)[1])

kept = [bytes(1000 + number % 7) for number in range(60_000)]
before, gathered = huge_bytes(), use_huge_pages()
assert sum(map(len, kept)) == sum(1000 + number % 7 for number in range(60_000))
print(before, gathered, huge_bytes())
"""


@given(
    st.integers(0, 2**20).map(lambda page: page * 4096), st.integers(1, 2**12).map(lambda pages: pages * 4096)
)
def test_whole_huge_pages_lie_within_the_memory_and_leave_less_than_one_at_each_end(
    start: int, size: int
) -> None:
    blocks = list(huge_blocks(SHOWN.format(start, start + size, "rw-p", "")))
    assert all(block % HUGE_BYTES == 0 for block in blocks)
    assert all(start <= block and block + HUGE_BYTES <= start + size for block in blocks)
    assert size - len(blocks) * HUGE_BYTES < 2 * HUGE_BYTES


def test_only_memory_of_its_own_is_taken() -> None:
    here = HUGE_BYTES, 3 * HUGE_BYTES
    for rights, name in (("r-xp", ""), ("rw-s", ""), ("rw-p", "/usr/lib/some.so"), ("rw-p", "[stack]")):
        assert not list(huge_blocks(SHOWN.format(*here, rights, name)))
    assert list(huge_blocks(SHOWN.format(*here, "rw-p", "[heap]"))) == [HUGE_BYTES, 2 * HUGE_BYTES]


def test_what_is_said_to_be_huge_is_so_and_nothing_is_lost() -> None:
    told = subprocess.run([sys.executable, "-c", GROWN], capture_output=True, text=True, check=True).stdout
    before, gathered, after = map(int, told.split())
    assert after >= gathered
    assert after >= before
