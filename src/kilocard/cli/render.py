"""`kilocard render`: a cluster file as the files of the tools that run clusters."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kilocard.cli.facts import JsonOption
from kilocard.cli.output import plain, print_json


class Target(StrEnum):
    """Whose files."""

    KUBERNETES = "kubernetes"
    HAPROXY = "haproxy"
    PROMETHEUS = "prometheus"
    GRAFANA = "grafana"
    RAY_SERVE = "ray-serve"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("render")(render)


def render(
    cluster: Annotated[Path, typer.Argument(help="The cluster file (YAML).")],
    target: Annotated[Target, typer.Option(help="Whose files.")],
    out: Annotated[Path, typer.Option(help="The folder that they are written into.")],
    as_json: JsonOption = False,
) -> None:
    """Write the files of a tool that runs clusters. Files of the same names are replaced, others are left."""
    from kilocard.deploy.targets import rendered
    from kilocard.specs.cluster import read_cluster
    from kilocard.specs.text_file import write_whole

    files = rendered(read_cluster(cluster), str(target))
    for name, text in files.items():
        write_whole(out / name, text)
    if as_json:
        print_json({"target": str(target), "files": [str(out / name) for name in files]})
        return
    for name in files:
        print(plain(str(out / name)))
