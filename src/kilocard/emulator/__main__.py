"""The child of `process.emulated`: reads from stdin what to emulate, says where, and ends when stdin does."""

from __future__ import annotations

import json
import sys

from kilocard.emulator.emulator import Emulator
from kilocard.emulator.serve import serve
from kilocard.errors import KilocardError
from kilocard.specs import Case


def main() -> None:
    """Serve until stopped."""
    asked = json.loads(sys.stdin.readline())
    case = Case.model_validate(asked.pop("case"))
    try:
        serve(lambda: Emulator(case, **asked), _announce, ends_with_stdin=True)
    except KilocardError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(2)


def _announce(emulator: Emulator) -> None:
    print(json.dumps(emulator.about()), flush=True)


if __name__ == "__main__":
    main()
