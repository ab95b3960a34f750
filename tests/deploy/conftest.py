"""What tests of rendered files share: Kubernetes' schemas, read once, and what kustomize builds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import utils


@pytest.fixture(scope="session", autouse=True)
def _schemas_are_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "schema_contents", cache(utils.schema_contents))
        yield


@pytest.fixture
def built(tmp_path: Path) -> Callable[[Mapping[str, str], str], list[Any]]:
    """What kustomize makes of rendered files in one of their overlays."""

    def build(files: Mapping[str, str], overlay: str) -> list[Any]:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        command = [str(Path(sys.executable).parent / "kubectl"), "kustomize"]
        done = subprocess.run(
            [*command, str(tmp_path / "overlays" / overlay)],
            capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(tmp_path)},
        )  # fmt: skip
        return list(yaml.load_all(done.stdout, Loader=yaml.CSafeLoader))

    return build
