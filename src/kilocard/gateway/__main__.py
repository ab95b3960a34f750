"""A worker of `kilocard gateway`: says on stdout where it listens, or why it does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.gateway.place import Place
from kilocard.gateway.server import serve


def main() -> None:
    """Serve until stopped."""
    asked = json.loads(sys.argv[1])
    try:
        serve(Place(**{**asked, "path": Path(asked["path"])}), lambda process: _say(process.about()))
    except KilocardError as error:
        _say({"error": str(error)})
        sys.exit(2)


def _say(told: dict[str, object]) -> None:
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
