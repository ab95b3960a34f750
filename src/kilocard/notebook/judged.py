"""A judgement of rounded weights, made here or, where no torch is, read from the book's record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kilocard import __version__
from kilocard.box import describe_box
from kilocard.errors import KilocardError
from kilocard.notebook.records import ROOT, measured_folder
from kilocard.quality import SCHEMES, Quality, Scheme, judge
from kilocard.record import Kind, Stamp
from kilocard.record.stamp import stamp_from
from kilocard.specs.engine import EMBEDDED_MODEL

NAME = "quality.json"
_ROWS = TypeAdapter(list[Quality])


@dataclass(frozen=True, slots=True)
class Judged:
    """The model as it is and under each scheme, and where that was measured."""

    rows: list[Quality]
    stamp: Stamp


def judged(schemes: Sequence[Scheme] = SCHEMES) -> Judged:
    """The embedded model judged on this box, and kept; without torch the judgement of another box."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        return read_judged(_kept())
    stamp = _stamp()
    found = Judged(judge(schemes), stamp)
    write_judged(found, measured_folder() / stamp.box["name"] / NAME)
    return found


def write_judged(found: Judged, path: Path) -> None:
    """Write what `read_judged` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"stamp": asdict(found.stamp), "rows": _ROWS.dump_python(found.rows, mode="json")}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_judged(path: Path) -> Judged:
    """A judgement that was kept."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Judged(_ROWS.validate_python(content["rows"]), stamp_from(content["stamp"]))
    except (OSError, ValueError, LookupError, TypeError, ValidationError) as error:
        reason = str(error).splitlines()[0][:80]
        raise KilocardError(f"{path} is no judgement ({reason}): restore it with git") from error


def _kept() -> Path:
    for folder in dict.fromkeys((measured_folder(), ROOT / "data" / "measured")):
        if found := sorted(folder.glob(f"*/{NAME}")):
            return found[0]
    raise KilocardError("no kept judgement, and no torch to make one: install torch and transformers")


def _stamp() -> Stamp:
    return Stamp(
        kind=Kind.MEASURED,
        model=EMBEDDED_MODEL,
        engine="transformers",
        engine_version=version("transformers"),
        card="cpu",
        box=describe_box(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        settings={"dtype": "float32", "rounding": "to nearest, simulated"},
        kilocard_version=__version__,
    )
