"""What several benchmarks share: options, the stamp of a result, how it is told and where it is kept."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kilocard import __version__
from kilocard.box import describe_box


def parser_of(about: str | None, quick: str) -> argparse.ArgumentParser:
    """Takes --quick and --json."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", action="store_true", help="the result on stdout, the lines on stderr")
    return parser


def now() -> str:
    """The moment, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def stamp(kind: str, started_at: str, **about: Any) -> dict[str, Any]:
    """What was made where and when, by which version."""
    return {
        "kind": kind,
        "box": describe_box(),
        "started_at": started_at,
        "kilocard_version": __version__,
        **about,
    }


def tell(result: dict[str, Any], lines: Iterable[str], path: Path | None, as_json: bool) -> None:
    """Show the lines, keep the result at a path if there is one, print it where it was asked for."""
    print(*lines, sep="\n", file=sys.stderr if as_json else sys.stdout)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps(result, indent=1))
