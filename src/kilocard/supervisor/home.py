"""Where a cluster's supervisor keeps what must outlive it, and the lock that lets one of them work."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.launch.model_files import cache_dir
from kilocard.specs.cluster import read_cluster

VARIABLE = "KILOCARD_CLUSTERS"
"""Where the homes of all clusters are, instead of the cache's folder."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one cluster, by its name; only this user reads it."""

    folder: Path

    @property
    def state(self) -> Path:
        """What runs."""
        return self.folder / "state.json"

    @property
    def cluster(self) -> Path:
        """The file that the gateways read: the engines that serve at this moment."""
        return self.folder / "gateways.yaml"

    @property
    def access_log(self) -> Path:
        """A line a request."""
        return self.folder / "access.log"

    @property
    def events(self) -> Path:
        """A line for each thing that was done."""
        return self.folder / "events.jsonl"

    @property
    def known_file(self) -> Path:
        """The cluster file as it was taken up last: to end by where the user's own cannot be read."""
        return self.folder / "cluster.yaml"

    @property
    def logs(self) -> Path:
        """What programs write, a file each."""
        return self.folder / "logs"

    @property
    def socket(self) -> str:
        """Where a supervisor takes orders: a name that is gone with it."""
        return f"\0kilocard-{os.getuid()}-{self.key_of('supervisor')}"

    def key_of(self, name: str) -> str:
        """What a program of this cluster is called among all of the machine's."""
        told = f"{self.folder.resolve()}/{name}"
        return f"{name[:32]}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"

    def log_of(self, name: str) -> Path:
        """What a program writes."""
        return self.logs / f"{name}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """This cluster has one supervisor, for the length of the block."""
        with (self.folder / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise KilocardError(
                    f"the cluster {self.folder.name} has a supervisor already: `kilocard status` shows it, "
                    "`kilocard down` ends it"
                ) from None
            yield


def home_of_file(path: Path) -> Home:
    """The home of the cluster that a file names; of a file that cannot be read, by what was run from it."""
    try:
        return home_of(read_cluster(path).name)
    except KilocardError:
        for home in (Home(place.parent) for place in _homes().glob("*/state.json")):
            if _file_of(home) == str(path.resolve()):
                return home
        raise


def _file_of(home: Home) -> str:
    try:
        return str(json.loads(home.state.read_text(encoding="utf-8"))["file"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _homes() -> Path:
    return Path(os.environ.get(VARIABLE) or cache_dir() / "clusters")


def home_of(name: str) -> Home:
    """The home of a cluster of this name, made where it was not."""
    folder = _homes() / name
    try:
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise KilocardError(
            f"the cluster's folder {folder} cannot be written ({error.strerror}): name another place in "
            "KILOCARD_CACHE"
        ) from error
    return Home(folder)
