"""Whatever the machine or the value, a command ends in one line and an exit code, never a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from kilocard import cli

KILOCARD = f"{sys.executable} -c 'from kilocard.cli import main; main()'"


def run(line: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", line.replace("kilocard ", f"{KILOCARD} ", 1)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("kilocard facts --json >/dev/full", 1, "No space left on device"),
        ("kilocard --help >/dev/full", 1, "No space left on device"),
        ("kilocard facts --json >&-", 0, ""),
        ("kilocard facts nosuch 2>&-", 2, ""),
        ("kilocard facts | head -1", 0, ""),
        ("kilocard nosuch", 2, "No such command 'nosuch'"),
        ("kilocard ledger --model qwen3-8b", 2, "Missing option '--card'"),
        ("kilocard ledger --model qwen3-8b --card l4 --context abc --concurrency 1", 2, "given: 'abc'"),
    ],
)
def test_one_line_and_a_code(line: str, code: int, says: str) -> None:
    ended = run(line)
    assert "Traceback" not in ended.stderr
    assert (ended.returncode, says in ended.stderr) == (code, True), ended.stderr
    assert ended.stderr.count("\n") <= 1


def test_what_no_command_foresaw_is_one_line_and_the_traceback_is_a_setting_away(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"cd {gone} && rmdir {gone} && kilocard book site"
    ended = run(line)
    assert ended.returncode in (1, 2)
    assert ended.stderr.startswith("kilocard: ")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (TypeError("unsupported operand"), "TypeError: unsupported operand"),
        (KeyError("tokens"), "KeyError: 'tokens'"),
        (IndexError(), "IndexError"),
        (ValueError("no such thing"), "no such thing"),
    ],
)
def test_a_fault_of_the_program_is_one_line_too(
    error: Exception, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(**_: object) -> None:
        raise error

    assert cli._run(fails, []) == 1
    assert capsys.readouterr().err == f"kilocard: {says}; KILOCARD_TRACEBACK=1 shows where\n"
