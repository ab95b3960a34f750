"""Why a program of the supervisor's ended, by the last that it wrote."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from kilocard.launch.failure import likely_cause
from kilocard.launch.keep import exit_code
from kilocard.lifecycle import Phase, Slot
from kilocard.specs.cluster.secrets import without_secrets
from kilocard.supervisor.home import Home
from kilocard.supervisor.state import Held

MOST_BYTES = 2**16
NO_CAUSE = "no cause found in its log"
KILLERS = {signal.SIGKILL: "by somebody, or by the kernel for want of memory (`dmesg` tells)"}


def why(before: Slot, held: Held, home: Home) -> str:
    """Why the program of a slot counts as dead, by what it was before and what it left."""
    if held.slot.phase is Phase.STOPPING:
        serves = before.phase is Phase.SERVING
        return "it gave no sign of life for a minute" if serves else "it was not ready in time"
    if held.kept is None and held.fault:
        return held.fault
    return last_words(home.log_of(held.slot.name))


def last_words(log: Path) -> str:
    """In one line; what is said where the log tells nothing, names the log."""
    text = _tail(log)
    told = _own_error(text) or likely_cause(text)
    return _how_it_ended(log) if told == NO_CAUSE else without_secrets(" ".join(told.split()))


def _how_it_ended(log: Path) -> str:
    """All that is known of one that said nothing."""
    code = exit_code(log)
    if code is None:
        return f"{NO_CAUSE} {log}"
    return f"{_named(code)}; {NO_CAUSE} {log}"


def _named(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        name = signal.Signals(-code)
    except ValueError:
        return f"it was killed by signal {-code}"
    return " ".join(filter(None, (f"it was killed with {name.name}", KILLERS.get(name, ""))))


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - MOST_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _own_error(text: str) -> str:
    """What our own programs say: a JSON object with an error."""
    lines = text.strip().splitlines()
    try:
        told = json.loads(lines[-1]) if lines else None
    except ValueError:
        return ""
    return str(told.get("error", "")) if isinstance(told, dict) else ""
