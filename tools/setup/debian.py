"""Debian's packages that the book's tests use: installed when that is allowed, else named."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import children

Say = Callable[[str], None]

PATIENCE_S = 120
WANTED = {
    "chromium": "the browser tests and `kilocard book look`",
    "fonts-noto-cjk": "Chinese in their screenshots",
    "haproxy": "the tests and the chapter of the tier before the gateways",
    "prometheus": "the tests of the rules and the chapter on eyes",
}
SERVICES = ("haproxy", "prometheus")
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where programs stand that not every user's path names."""
SYSTEMD = Path("/run/systemd/system")


def install_missing(say: Say) -> None:
    """Bring in what is missing, or say exactly what to install and what is left out without it."""
    lacking = missing()
    if not lacking:
        return
    if may_install():
        say(f"Debian packages, beside pip: {' '.join(lacking)}")
        if install(lacking):
            _end_service(lacking)
            say("Debian packages are there")
            return
    for name in lacking:
        say(f"LEFT OUT: {WANTED[name]}, for {name} is not here and may not be installed by this set-up")
    say(f"to have them: {command(lacking)}")


def missing() -> list[str]:
    """The wanted packages that are not here, by any name: a browser of another make will do."""
    lacking = []
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))):
        lacking.append("chromium")
    if shutil.which("dpkg-query") and not _is_installed("fonts-noto-cjk"):
        lacking.append("fonts-noto-cjk")
    for name in SERVICES:
        if not shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}"):
            lacking.append(name)
    return lacking


def may_install() -> bool:
    """Whether apt-get is here and runs without a password."""
    return shutil.which("apt-get") is not None and (os.geteuid() == 0 or _sudo_is_free())


def install(names: list[str]) -> bool:
    """Install without a question; the list of packages is renewed only where it does not know a name.

    What an install that was cut short has left is put in order last of all.
    """
    get = [*_as_root(), "apt-get", "-o", f"DPkg::Lock::Timeout={PATIENCE_S}"]
    quietly = ["install", "--yes", "--quiet", "--quiet", "--no-install-recommends", *names]
    return (
        _runs([*get, *quietly])
        or (_runs([*get, "update", "--quiet", "--quiet"]) and _runs([*get, *quietly]))
        or (_runs([*_as_root(), "dpkg", "--configure", "--pending"]) and _runs([*get, *quietly]))
    )


def command(names: list[str]) -> str:
    """What a person types to install these."""
    return f"sudo apt-get install --no-install-recommends {' '.join(names)}"


def _end_service(installed: list[str]) -> None:
    """Their packages start these with the system; the book runs its own."""
    for name in SERVICES:
        if name in installed and SYSTEMD.is_dir():
            _runs([*_as_root(), "systemctl", "disable", "--now", name])


def _is_installed(name: str) -> bool:
    return "ok installed" in children.run(["dpkg-query", "-W", "-f", "${Status}", name]).stdout


def _as_root() -> list[str]:
    environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
    return environment if os.geteuid() == 0 else ["sudo", "--non-interactive", *environment]


def _sudo_is_free() -> bool:
    return shutil.which("sudo") is not None and _runs(["sudo", "--non-interactive", "true"])


def _runs(arguments: list[str]) -> bool:
    """SIGINT, unlike SIGTERM, lets apt finish the package that it is at."""
    return children.run(arguments, end_with=signal.SIGINT).returncode == 0
