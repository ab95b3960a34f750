"""A fake engine for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from launch_fakes import Fake, eventually


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """A fake engine of its own for this test; whatever a failed test leaves is killed."""
    monkeypatch.setenv("KILOCARD_CACHE", str(tmp_path))
    monkeypatch.delenv("KILOCARD_ENGINE_URL", raising=False)
    made = Fake(tmp_path)
    yield made
    for user in made.users:
        user.kill()
        user.communicate()
    assert eventually(made.is_gone), f"left behind: {made.processes()}"
