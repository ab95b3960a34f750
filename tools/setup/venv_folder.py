"""The virtual environment at the checkout's root, with a pinned pip in it."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import children
import debian
import packages

PIP = "26.3"
LEAST_FREE_BYTES = 2**26

Say = Callable[[str], None]


class NoVenvError(Exception):
    """No virtual environment can be made here; the message says what to install."""


def ensure(folder: Path, say: Say) -> Path:
    """The environment's Python, made by the running one unless it is there, whole and of the same version."""
    python = folder / "bin" / "python"
    if version_of(python) != sys.version_info[:2] or not _was_made_here(folder) or pip_of(python) is None:
        if folder.exists():
            say("the .venv that is here is of another Python, broken, or was moved: it is made anew")
            shutil.rmtree(folder)
        say(f"virtual environment with Python {sys.version.split()[0]}")
        _make(folder)
    if pip_of(python) != PIP:
        say(f"pip {PIP}")
        packages.pip(python, ["install", f"pip=={PIP}"])
    return python


def version_of(python: Path) -> tuple[int, int] | None:
    """Major and minor version of this Python, or None where it does not run."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        answer = children.run([python, "-c", code])
        major, minor = map(int, answer.stdout.split())
    except (OSError, ValueError):
        return None
    return major, minor


def pip_of(python: Path) -> str | None:
    """The version of the environment's pip, or None where it has none."""
    code = "import pip; print(pip.__version__)"
    return children.run([python, "-c", code]).stdout.strip() or None


def _was_made_here(folder: Path) -> bool:
    """An environment that was moved has scripts that name a Python elsewhere."""
    scripts = (folder / "bin" / name for name in ("pip", "pip3"))
    return any(script.is_file() and str(folder) in script.read_text().split("\n")[0] for script in scripts)


def _make(folder: Path) -> None:
    tried = [[sys.executable, "-m", "venv", str(folder)], [sys.executable, "-m", "virtualenv", str(folder)]]
    for command in tried:
        made = children.run(command)
        if made.returncode == 0:
            return
        full = shutil.disk_usage(folder.parent).free < LEAST_FREE_BYTES
        shutil.rmtree(folder, ignore_errors=True)
        if full:
            raise NoVenvError(f"the disk of {folder.parent} is full: free 6 GB, and try the same again")
    package = f"python3.{sys.version_info.minor}-venv"
    if debian.may_install() and debian.install([package]) and children.run(tried[0]).returncode == 0:
        return
    raise NoVenvError(
        f"this Python cannot make a virtual environment: sudo apt-get install {package}, "
        "or `python3 -m pip install --user virtualenv`, and run the same command again"
    )
