"""`kilocard gateway`: OpenAI's API in front of the replicas that a cluster file names."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from kilocard.cli.facts import JsonOption
from kilocard.cli.output import plain, print_json

MOST_WORKERS, MOST_NUMBER = 64, 127


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("gateway")(gateway)
    app.command("gateway-key")(gateway_key)


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
        int,
        typer.Option(
            min=0, max=MOST_NUMBER, help="Which of the cluster's gateways the first process is, from 0."
        ),
    ] = 0,
    one_a_machine: Annotated[
        bool,
        typer.Option(
            "--one-a-machine", help="Its orders and metrics are at the file's ports, whatever its number."
        ),
    ] = False,
    drain_s: Annotated[
        float, typer.Option(min=0, help="At SIGTERM, the longest wait for what is under way.")
    ] = 600.0,
    as_json: JsonOption = False,
) -> None:
    """Serve the engines of a cluster file on one address, until Ctrl-C or SIGTERM; then finish what is under
    way. SIGHUP reads the file again."""
    from kilocard.gateway.place import Place
    from kilocard.gateway.server import serve
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
            gateway=number + worker,
            gateways=gateways,
            drain_s=drain_s,
            is_alone=one_a_machine and workers == 1,
        )
        for worker in range(workers)
    ]
    if workers == 1:
        serve(places[0], lambda process: _announce([process.about()], as_json))
    else:
        run_workers(places, lambda told: _announce(told, as_json))


def gateway_key(
    name: Annotated[str, typer.Argument(help="What the key is called, like acme-1.")],
    tenant: Annotated[str | None, typer.Option(help="Whose it is; default: the name.")] = None,
    expires: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The last day it opens, UTC.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key, shown once, and its line for the file `keys`."""
    from kilocard.gateway.keys import make_key

    key, line = make_key(name, tenant, expires.date() if expires else None)
    if as_json:
        print_json({"key": key, "line": line})
        return
    print("The key, shown this once:", key, "Its line for the file that gateway.keys names:", line, sep="\n")


def _announce(told: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json({"url": told[0]["url"], "workers": told})
        return
    first = told[0]
    _print(
        f"{first['url']}: {', '.join(first['models'])} of {first['replicas']} replicas, by {first['policy']}"
    )
    for about in told:
        _print(f"  orders at {about['admin']}, metrics at {about['metrics']}/metrics")


def _print(line: str) -> None:
    print(plain(line), flush=True)
