"""What Kubernetes is told beside the rest of the file: where, from which images, on which volume."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from kilocard.specs.cluster.volume import Label, Volume
from kilocard.specs.numbers import Positive, Seconds
from kilocard.specs.written import Written

MOVING_TAGS = frozenset({"latest", "stable", "main", "master", "nightly", "dev"})
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9]+([._-]+[a-z0-9]+)*(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(@sha256:(?P<digest>[0-9a-f]{64}))?"
)


def pinned_image(text: str) -> str:
    """An image's name as it is; ValueError where it may be another one tomorrow."""
    found = _IMAGE.fullmatch(text)
    if found is None:
        raise ValueError("it is no image's name: write it like registry/name:v1.2.3, or name@sha256:…")
    if not found["digest"] and (found["tag"] is None or found["tag"] in MOVING_TAGS):
        raise ValueError(
            f"{'no tag' if found['tag'] is None else found['tag']} may be another image tomorrow: name a "
            "version, or better its @sha256: digest"
        )
    return text


Image = Annotated[str, Field(max_length=500), AfterValidator(pinned_image)]


class Deployment(Written):
    """A namespace (the cluster's name unless given), pinned images, a volume.

    `gateway_image` is the image that `image/build.sh` makes, beside the rendered manifests: push it, and give
    the name that your registry has it under. `card_resource` is what a card is called among a node's
    resources, `tolerations` keys of taints that engines bear, `shm_gib` the shared memory (2^30 bytes) of an
    engine with several ranks, `scrape_s` how often Prometheus asks.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "replicas": "they stand in a pool",
        "image": "there are two: engine_image and gateway_image",
    }

    namespace: Label | None = None
    engine_image: Image = "vllm/vllm-openai:v0.32.0"
    gateway_image: Image = "kilocard/gateway:0.1.0"
    card_resource: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[a-z0-9A-Z._-]+$")] = "nvidia.com/gpu"
    runtime_class: Label | None = None
    tolerations: tuple[str, ...] = ("nvidia.com/gpu",)
    volume: Volume = Volume()
    shm_gib: Annotated[Positive, Field(le=65_536)] = 16.0
    scrape_s: Seconds = 5.0
