"""Compiled code that was kept and is damaged, or cannot be kept, costs time and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from numba import types
from kilocard.engine_model.compiled import compiled, compiled_entry, OWN_FOLDER

@compiled
def doubled(number):
    return 2 * number

def answer(number):
    return doubled(number) + 2

print(compiled_entry(answer, types.int64(types.int64))(20))
"""


def run(folder: Path, program: Path) -> str:
    done = subprocess.run(
        [sys.executable, program],
        env={"KILOCARD_CACHE": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("kind", "content"), [("nbi", b""), ("nbi", b"\x80\x04no"), ("nbc", b"no code")])
def test_a_damaged_file_is_made_anew(tmp_path: Path, kind: str, content: bytes) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert run(tmp_path, program) == "42\n"
    (damaged,) = (tmp_path / "compiled").rglob(f"*.{kind}")
    damaged.write_bytes(content)
    assert run(tmp_path, program) == "42\n"
    assert not damaged.exists()
    assert run(tmp_path, program) == "42\n"
    assert damaged.read_bytes() != content


def test_where_nothing_can_be_kept_it_runs_all_the_same(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "compiled").write_text("a file in the way")
    assert run(tmp_path, program) == "42\n"
