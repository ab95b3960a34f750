"""Where a model's weights lie, and how it is known that they are whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from kilocard.specs.cluster.access import Path
from kilocard.specs.numbers import Positive
from kilocard.specs.written import Written

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
HUB_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$"


class ModelWeights(Written):
    """A folder as engines see it, or a model's id at a hub with the `revision` that is meant.

    `checksums` is a file of `sha256sum`, beside the weights unless it begins with /; every file that it names
    is verified before an engine is started. `sha256` is that file's own sum: with it, these very weights are
    meant, and no others that happen to be whole. `size_gb` (10^9 bytes) tells a cluster how large a volume
    they need.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "url": "engines read a folder, or a hub's id: write path",
        "folder": "did you mean 'path'?",
    }

    path: Path | None = None
    revision: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]{1,200}$")] | None = None
    checksums: Path | None = None
    sha256: Digest | None = None
    size_gb: Annotated[Positive, Field(le=100_000)] | None = None

    @model_validator(mode="after")
    def _sums_are_of_something(self) -> Self:
        if self.sha256 and not self.checksums:
            raise ValueError("sha256 is the sum of the file `checksums`: name that file, too")
        if self.checksums and not (self.path or "").startswith(("/", ".", "~")):
            raise ValueError(
                "checksums are of a folder's files: give path as a folder, like /models/qwen3-8b"
            )
        return self
