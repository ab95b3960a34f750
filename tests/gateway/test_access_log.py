"""The access log: a line that cannot be written costs no answer, and what is lost is told once."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from kilocard.gateway.log import MOST_KEPT_BYTES, AccessLog

ROW = {"about": "x" * 4000}


def test_where_nobody_reads_stderr_the_log_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    try:
        with open(writer, "wb", closefd=False) as unread:
            monkeypatch.setattr(sys, "stderr", unread)
            log = AccessLog(None)
        for _ in range(2 * MOST_KEPT_BYTES // 4000):
            log.note(ROW)
        log.flush()
        assert log.lost > 0
        assert len(os.read(reader, 2**20)) > 0
        assert os.get_blocking(writer), "others write to it as before"
    finally:
        os.close(reader)
        os.close(writer)


def test_what_was_lost_is_told_once(tmp_path: Path) -> None:
    full, path = Path("/dev/full"), tmp_path / "log.jsonl"
    path.symlink_to(full)
    log = AccessLog(str(path))
    asked = 2 * MOST_KEPT_BYTES // 4000
    for _ in range(asked):
        log.note(ROW)
    for _ in range(5):
        log.flush()
    path.unlink()
    log.reopen()
    log.flush()
    log.close()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    told = [row["lost_lines"] for row in rows if "lost_lines" in row]
    assert len(told) == 1 and told[0] + len(rows) - 1 == asked
