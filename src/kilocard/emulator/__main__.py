"""Emulated engines as a program: told what to emulate by their argument, until a signal ends them; or, as the
child of `process.emulated`, by the first line of stdin, with which they end too."""

from __future__ import annotations

import json
import sys

from kilocard.emulator.emulator import Emulator
from kilocard.emulator.serve import serve
from kilocard.errors import KilocardError
from kilocard.specs import Case


def main() -> None:
    """Serve until stopped."""
    is_child = len(sys.argv) < 2
    asked = json.loads(sys.stdin.readline() if is_child else sys.argv[1])
    case = Case.model_validate(asked.pop("case"))
    try:
        serve(lambda: Emulator(case, **asked), _announce, ends_with_stdin=is_child)
    except KilocardError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(2)


def _announce(emulator: Emulator) -> None:
    print(json.dumps(emulator.about()), flush=True)


if __name__ == "__main__":
    main()
