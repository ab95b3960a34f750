"""The gateway's image: the file that it is built from, and the command that builds it."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from kilocard.specs.cluster import ClusterSpec

CONTAINERFILE = Path(__file__).with_name("gateway.Containerfile")
BUILD = """\
# Builds the gateway's image from a checkout of Kilocard: sh build.sh CHECKOUT. BUILDER=docker does it, too.
# Then push it to where your nodes pull from. More arguments go to the builder:
# --build-arg PYTHON=docker.io/library/python@sha256:… names the base by its digest.
set -eu
checkout=${{1:?name the folder of a checkout of Kilocard}}
shift
"${{BUILDER:-podman}}" build --file "$(dirname "$0")/Containerfile" --tag {tag} "$@" "$checkout"
"""


def image_files(spec: ClusterSpec) -> dict[str, str]:
    """Path → text. What is built has the name that the pods ask for."""
    tag = spec.deployment.gateway_image.partition("@")[0]
    return {
        "image/Containerfile": CONTAINERFILE.read_text(encoding="utf-8"),
        "image/build.sh": BUILD.format(tag=quote(tag)),
    }
