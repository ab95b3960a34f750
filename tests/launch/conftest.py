"""A fake engine for each test."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch_fakes import Fake, eventually


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Fake]:
    """A fake engine of its own for this test, in a temporary folder that no other test's engine sweeps;
    whatever a failed test leaves is killed."""
    folder = tempfile.mkdtemp(prefix="k-")
    request.addfinalizer(lambda: shutil.rmtree(folder, ignore_errors=True))
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setenv("KILOCARD_CACHE", str(tmp_path))
    monkeypatch.delenv("KILOCARD_ENGINE_URL", raising=False)
    made = Fake(tmp_path)
    yield made
    for user in made.users:
        user.kill()
        user.communicate()
    assert eventually(made.is_gone), f"left behind: {made.processes()}"
