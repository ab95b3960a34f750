"""`kilocard lint`: what is wrong with a cluster file, or with manifests that others wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kilocard.cli.facts import JsonOption
from kilocard.cli.output import plain, print_json
from kilocard.errors import KilocardError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("lint")(lint)


def lint(
    cluster: Annotated[Path | None, typer.Argument(help="The cluster file (YAML).")] = None,
    manifests: Annotated[
        Path | None, typer.Option(help="A folder of Kubernetes manifests, or of Prometheus rules.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of cluster files, for an editor.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say everything that is wrong with a file, a line each with its place and the way out. Exit 1 where
    there is something, 0 where there is nothing, or a remark on what may surprise."""
    if schema:
        from kilocard.specs.cluster.schema import cluster_schema

        print_json(cluster_schema())
        return
    if (cluster is None) == (manifests is None):
        raise KilocardError("name a cluster file, or --manifests DIR, or --schema")
    raise typer.Exit(
        _lint_cluster(cluster, as_json) if cluster else _lint_manifests(manifests or Path(), as_json)
    )


def _lint_cluster(path: Path, as_json: bool) -> int:
    from kilocard.specs.cluster import faults_of, read_cluster
    from kilocard.specs.cluster.remarks import remarks

    faults = faults_of(path)
    noted = [] if faults else [*remarks(read_cluster(path))]
    if as_json:
        rows = [{"where": it.where, "key": it.key, "told": it.told} for it in faults]
        more = [{"key": it.key, "told": it.told} for it in noted]
        print_json({"file": str(path), "faults": rows, "remarks": more})
        return int(bool(faults))
    for fault in faults:
        print(plain(" ".join(str(fault).split())))
    if not faults:
        print(f"{plain(str(path))}: nothing is wrong with it")
    for remark in noted:
        print(plain(f"remark: {remark}"))
    return int(bool(faults))


def _lint_manifests(folder: Path, as_json: bool) -> int:
    from dataclasses import asdict

    from kilocard.deploy.lint import lint_manifests

    found = lint_manifests(folder)
    faults = sum(it.weight == "fault" for it in found)
    if as_json:
        print_json({"folder": str(folder), "faults": faults, "findings": [asdict(it) for it in found]})
    else:
        for finding in found:
            print(plain(f"{finding.weight}: {' '.join(str(finding).split())}"))
        print(f"{plain(str(folder))}: {faults} faults, {len(found) - faults} risks")
    return int(bool(found))
