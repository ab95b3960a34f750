"""The volume that weights lie on: where it comes from, and where engines see it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from kilocard.specs.cluster.parts import Host
from kilocard.specs.numbers import Positive
from kilocard.specs.written import Written

LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
DRIVER = r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$"
PATH = r"^/[^\x00-\x1f\x7f]*$"
SOURCES = ("claim", "nfs", "csi", "storage_class")
Label = Annotated[str, Field(pattern=LABEL)]
Plain = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]


def whole_path(text: str) -> str:
    """A path as it is; ValueError where it does not begin at the root."""
    if not re.fullmatch(PATH, text):
        raise ValueError("write the whole path, from / on, like /export/models")
    return text


WholePath = Annotated[
    str, Field(max_length=1024, json_schema_extra={"pattern": PATH}), AfterValidator(whole_path)
]


class NfsShare(Written):
    """A folder that a server exports."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "host": "did you mean 'server'?",
        "share": "did you mean 'path'?",
    }

    server: Host
    path: WholePath


class CsiVolume(Written):
    """A volume by the `handle` that its driver has for it, with the `attributes` that the driver asks for."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "volume_handle": "did you mean 'handle'?",
        "volume_attributes": "did you mean 'attributes'?",
    }

    driver: Annotated[str, Field(pattern=DRIVER)]
    handle: Plain
    attributes: dict[Plain, Plain] = Field(default_factory=dict, max_length=100)


class Volume(Written):
    """The volume of the weights, mounted read-only at `mount`.

    It comes from one place: `claim` names a claim that is there already; `nfs` or `csi` a source, for which a
    PersistentVolume is rendered that no other claim can take; else a claim of `storage_class` (None: the
    cluster's default) is rendered, which many nodes must be able to read at once and somebody has to fill.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "server": "it stands in nfs: {server: HOST, path: /FOLDER}",
        "driver": "it stands in csi: {driver: NAME, handle: ID}",
        "handle": "it stands in csi: {driver: NAME, handle: ID}",
        "path": "did you mean 'mount'? a server's folder stands in nfs",
    }

    claim: Label | None = None
    nfs: NfsShare | None = None
    csi: CsiVolume | None = None
    storage_class: Label | None = None
    mount: WholePath = "/models"
    size_gb: Annotated[Positive, Field(le=1_000_000)] = 500.0

    @model_validator(mode="after")
    def _comes_from_one_place(self) -> Self:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(given)} each say where the volume comes from: leave all but one out"
            )
        return self
