"""`kilocard gateway`: OpenAI's API in front of the replicas that a cluster file names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from kilocard.cli.facts import JsonOption
from kilocard.cli.output import plain, print_json

MOST_WORKERS = 64


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("gateway")(gateway)


def gateway(
    cluster: Annotated[Path, typer.Argument(help="The cluster file (YAML).")],
    port: Annotated[
        int | None, typer.Option(help="Where clients ask; default: the file's gateway.port. 0: a free one.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address; default: the file's gateway.host.")] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=MOST_WORKERS, help="Processes that share the port, one a core.")
    ] = 1,
    number: Annotated[
        int, typer.Option(min=0, help="Which of the cluster's gateways the first process is, from 0.")
    ] = 0,
    drain_s: Annotated[
        float, typer.Option(min=0, help="At SIGTERM, the longest wait for what is under way.")
    ] = 600.0,
    as_json: JsonOption = False,
) -> None:
    """Serve until Ctrl-C or SIGTERM, then finish what is under way. SIGHUP reads the file again."""
    from kilocard.gateway.server import Place, serve
    from kilocard.gateway.workers import run_workers
    from kilocard.specs.cluster import read_cluster

    changes = {"HOST": host, "PORT": str(port) if port else None}
    for name, value in changes.items():
        if value is not None:
            os.environ[f"KILOCARD__GATEWAY__{name}"] = value
    spec = read_cluster(cluster).gateway
    gateways = max(spec.gateways, number + workers)
    places = [
        Place(
            path=cluster,
            host=spec.host,
            port=0 if port == 0 else spec.port,
            worker=worker,
            gateway=number + worker,
            gateways=gateways,
            drain_s=drain_s,
        )
        for worker in range(workers)
    ]
    if workers == 1:
        serve(places[0], lambda process: _announce([process.about()], as_json))
    else:
        run_workers(places, lambda told: _announce(told, as_json))


def _announce(told: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json({"url": told[0]["url"], "workers": told})
        return
    plain(f"{told[0]['url']}: {told[0]['models']} of {told[0]['replicas']} replicas, by {told[0]['policy']}")
    for about in told:
        plain(f"  orders at {about['admin']}, metrics at {about['metrics']}/metrics")
