"""The gateway's image: its file keeps the rules and fits the manifests that run it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from containerfile import (
    BUILD_TOOLS,
    PINS,
    ROOT,
    asked_for,
    files,
    instructions,
    listed,
    of,
    pod,
    stages,
    with_what_they_bring,
)
from packaging.utils import canonicalize_name

import kilocard
from kilocard.deploy.kubernetes.pods import GATEWAY_PORT, METRICS_PORT, USER
from kilocard.specs.cluster import Deployment
from kilocard.specs.cluster.deployment import pinned_image
from kilocard.specs.cluster.secrets import is_secret_name, looks_secret


def test_the_base_is_pinned_and_can_be_pinned_harder() -> None:
    before, *built = stages()
    [told] = of(before, "ARG")
    name, _, image = told.partition("=")
    assert pinned_image(image) == image and re.search(r":\d+\.\d+\.\d+-slim-\w+$", image)
    assert {it.split()[0] for stage in built for it in of(stage, "FROM")} == {f"${{{name}}}"}


def test_every_command_is_in_exec_form() -> None:
    for word, rest in instructions():
        if word in ("RUN", "COPY", "ENTRYPOINT"):
            assert all(isinstance(it, str) for it in listed(rest)), rest
    assert not {word for word, _ in instructions()} & {"ADD", "CMD", "ONBUILD", "SHELL", "VOLUME"}


def test_nobody_is_root_and_it_is_the_user_of_the_pods() -> None:
    last = stages()[-1]
    assert of(last, "USER") == [f"{USER}:{USER}"] and USER > 0 and not of(last, "RUN")
    security = pod()["securityContext"]
    assert (security["runAsUser"], security["runAsGroup"]) == (USER, USER)


def test_it_writes_only_where_a_volume_is_mounted() -> None:
    [variables] = of(stages()[-1], "ENV")
    told = dict(it.split("=", 1) for it in variables.split())
    [container] = pod()["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"name": "HOME", "value": told["HOME"]} in container["env"]
    assert of(stages()[-1], "WORKDIR") == [told["HOME"]]
    [mount] = [it for it in container["volumeMounts"] if it["mountPath"] == told["HOME"]]
    [volume] = [it for it in pod()["volumes"] if it["name"] == mount["name"]]
    assert "emptyDir" in volume and not mount.get("readOnly")


def test_it_starts_and_ends_as_the_pods_expect() -> None:
    last, [container] = stages()[-1], pod()["containers"]
    assert [listed(it) for it in of(last, "ENTRYPOINT")] == [["kilocard"]]
    assert container["args"][0] == "gateway" and "command" not in container
    assert of(last, "STOPSIGNAL") == ["SIGTERM"]
    assert of(last, "EXPOSE") == [f"{GATEWAY_PORT} {METRICS_PORT}"]
    assert {it["containerPort"] for it in container["ports"]} == {GATEWAY_PORT, METRICS_PORT}


def test_no_secret_is_in_it_and_no_more_is_copied_than_it_needs() -> None:
    assert not looks_secret(files()["image/Containerfile"])
    named = [it.split("=")[0] for word, it in instructions() if word in ("ARG", "ENV")]
    assert not any(is_secret_name(it) for it in named)
    copied = {it for rest in of(stages()[1], "COPY") for it in listed(rest)[:-1]}
    assert copied == {PINS, "pyproject.toml", "README.md", "src", "data/facts"}
    assert all((ROOT / it).exists() for it in copied)


def test_every_version_is_pinned_also_of_what_is_brought() -> None:
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / PINS).read_text(encoding="utf-8"), re.MULTILINE)
    assert asked_for() > BUILD_TOOLS
    assert with_what_they_bring(asked_for()) <= {canonicalize_name(it) for it in pinned}


def test_the_default_image_is_the_one_that_is_built(tmp_path: Path) -> None:
    script = tmp_path / "build.sh"
    script.write_text(files()["image/build.sh"], encoding="utf-8")
    more = ["--build-arg", "PYTHON=python@sha256:0"]
    told = subprocess.run(
        ["sh", str(script), "/checkout", *more],
        capture_output=True, text=True, check=True, env={**os.environ, "BUILDER": "echo"},
    )  # fmt: skip
    image = pod()["containers"][0]["image"]
    assert image == Deployment().gateway_image == f"kilocard/gateway:{kilocard.__version__}"
    place = f"{tmp_path}/Containerfile"
    assert told.stdout.split() == ["build", "--file", place, "--tag", image, *more, "/checkout"]
    alone = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=False)
    assert alone.returncode and "name the folder of a checkout" in alone.stderr
