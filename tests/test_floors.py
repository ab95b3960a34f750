"""A floor of the package imports only from itself and from below."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "kilocard"

FLOORS = {
    0: {"errors"},
    1: {
        "facts",
        "record",
        "salvage",
        "workload",
        "specs",
        "box",
        "processes",
        "children",
        "beside",
        "topology",
    },
    2: {"stats", "bench_json", "memory", "roofline", "parallel", "ceilings"},
    3: {"engine_model", "routing", "lifecycle", "autoscale"},
    4: {
        "layout",
        "fleet",
        "launch",
        "emulator",
        "load",
        "gateway",
        "quality",
        "network",
        "collectives",
        "cluster",
    },
    5: {"supervisor", "planning", "deploy", "diagnosis"},
    6: {"notebook", "cli", "__main__"},
}
FLOOR_OF = {room: floor for floor, rooms in FLOORS.items() for room in rooms}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(source: str) -> set[str]:
    """The rooms of kilocard that a module names in its imports, wherever they stand."""
    rooms = set()
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("kilocard.")}
    return rooms - {"__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_import_goes_up(path: Path) -> None:
    room = room_of(path)
    assert room in FLOOR_OF, f"{room} stands on no floor: give it one in {__file__}"
    up = {other for other in imported_rooms(path.read_text()) if FLOOR_OF.get(other, 99) > FLOOR_OF[room]}
    assert not up, f"{room} (floor {FLOOR_OF[room]}) imports {', '.join(sorted(up))} from above"


def test_an_import_that_goes_up_is_seen() -> None:
    source = "def late():\n    from kilocard.notebook.style import show\n\nimport kilocard.load.client as c\n"
    assert imported_rooms(source) == {"notebook", "load"}
