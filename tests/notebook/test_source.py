"""The package's code in a chapter: shown as it is, whole or in part."""

import pytest

from kilocard.engine_model import scheduler
from kilocard.errors import KilocardError
from kilocard.notebook import source


@pytest.fixture
def shown(monkeypatch):
    pages: list[str] = []
    monkeypatch.setattr(source, "display", lambda thing: pages.append(thing.data))
    return pages


def test_a_compiled_function_is_shown_with_its_file(shown):
    source.show_source(scheduler.finish)
    assert shown[0].startswith("`kilocard/engine_model/scheduler.py`, `finish`:")
    assert "def finish(" in shown[0] and shown[0].endswith("```")


def test_a_part_keeps_its_own_indentation(shown):
    source.show_source(scheduler.make_plan, since="while (", until="prefills += 1")
    assert "```python\nwhile (\n    replica.waiting > 0" in shown[0]
    assert shown[0].rstrip("`\n").endswith("    prefills += 1")


def test_a_line_that_is_gone_is_named(shown):
    with pytest.raises(KilocardError, match="no line holds 'no such line'"):
        source.show_source(scheduler.finish, since="no such line")
