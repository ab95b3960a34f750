"""Weights are read once, by whoever comes first, and whoever watches is told how far it is."""

from __future__ import annotations

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kilocard.cli.up import Told
from kilocard.cli.weights_read import WeightsRead, weights_line
from kilocard.errors import KilocardError
from kilocard.specs.cluster import ModelWeights
from kilocard.supervisor import checksums
from kilocard.supervisor.checksums import Reading, Verifier


class Watched(Verifier):
    """Keeps how far it was after each piece; stops after so many."""

    def __init__(self, stops_after: int | None = None) -> None:
        super().__init__()
        self.seen: list[Reading] = []
        self._stops_after = stops_after

    def _has_read(self, size: int) -> None:
        if len(self.seen) == self._stops_after:
            self.stop()
        super()._has_read(size)
        if self.reading:
            self.seen.append(self.reading)


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelWeights:
    """Two files, read in ten pieces."""
    monkeypatch.setattr(checksums, "PIECE_BYTES", 10)
    lines = []
    for name, content in (("a.safetensors", b"a" * 60), ("b.safetensors", b"b" * 40)):
        (tmp_path / name).write_bytes(content)
        lines.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    (tmp_path / "SHA256SUMS").write_text("".join(lines))
    return ModelWeights(path=str(tmp_path), checksums="SHA256SUMS")


def test_a_reading_tells_how_far_it_is(weights: ModelWeights) -> None:
    verifier = Watched()
    verifier.verify("m", weights)
    assert verifier.seen == [Reading("m", 10 * part, 100) for part in range(1, 11)]
    assert verifier.reading is None


def test_engines_of_the_same_weights_read_them_once(weights: ModelWeights) -> None:
    verifier = Watched()
    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(verifier.verify, "m", weights) for _ in range(8)]:
            done.result()
    assert len(verifier.seen) == 10


def test_only_what_has_changed_is_read_again(weights: ModelWeights) -> None:
    verifier = Watched()
    verifier.verify("m", weights)
    (Path(str(weights.path)) / "b.safetensors").write_bytes(b"c" * 30)
    with pytest.raises(KilocardError, match=r"b\.safetensors is damaged or another"):
        verifier.verify("m", weights)
    assert verifier.seen[10:] == [Reading("m", 10 * part, 30) for part in range(1, 4)]


def test_a_reading_that_nobody_waits_for_is_left_off(weights: ModelWeights) -> None:
    verifier = Watched(stops_after=3)
    with pytest.raises(KilocardError, match="told to end"):
        verifier.verify("m", weights)
    assert len(verifier.seen) == 3 and verifier.reading is None


def test_where_there_is_no_terminal_each_tenth_is_a_line() -> None:
    stream = io.StringIO()
    shown = WeightsRead(stream)
    for part in range(101):
        shown.show(Reading("m", part * 10**9, 100 * 10**9))
    shown.show(None)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "verifying weights of m (100.0 GB)" and len(lines) == 11
    assert lines[5] == "verifying weights of m (50.0 of 100.0 GB)"


def test_on_a_terminal_it_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    shown = WeightsRead(stream)
    shown.show(Reading("m", 5 * 10**9, 10**10))
    shown.show(None)
    assert "verifying weights of m" in stream.getvalue() and "5.0/10.0 GB" in stream.getvalue()


def test_up_says_what_is_verified_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    supervisor: Any = SimpleNamespace(reading=Reading("m\x1b[2J", 0, 16_400_000_000), is_ready=False)
    Told(as_json=True).show(supervisor)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "verifying weights of m\\x1b[2J (16.4 GB)\n")
    assert weights_line(Reading("m", 10**9, 2 * 10**9)) == "verifying weights of m (1.0 of 2.0 GB)"
