"""`kilocard facts`: the catalogue of cards, models and links, each with its source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from itertools import chain
from typing import Annotated, Any

import typer
from rich.table import Table

from kilocard import facts
from kilocard.cli.output import console, number, plain, print_json, print_pairs
from kilocard.errors import KilocardError, near_match
from kilocard.facts.dtypes import KvDtype
from kilocard.facts.files import is_there, user_path
from kilocard.facts.parts import active_parameters, parameters
from kilocard.facts.registry import FACTS_VARIABLE, looks_like_path
from kilocard.facts.sharding import valid_tensor_parallel
from kilocard.facts.yaml_rows import id_of

SECTIONS = {"cards": facts.cards, "models": facts.models, "links": facts.links}

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
FactsOption = Annotated[str, typer.Option("--facts", help="A YAML file, or a folder, of rows of your own.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("facts")(show_facts)


def show_facts(
    what: Annotated[str, typer.Argument(help="cards, models, links, or the name of one.")] = "",
    facts_path: FactsOption = "",
    as_json: JsonOption = False,
) -> None:
    """Cards, models and links: what is known, who published it, what is unverified."""
    use_facts(facts_path)
    if what in SECTIONS or not what:
        sections = {name: rows() for name, rows in SECTIONS.items() if what in ("", name)}
        _print_sections(sections, as_json)
    else:
        _print_row(_row(_find(what)), as_json)


def use_facts(path: str) -> None:
    """Let the catalogue read the reader's own rows too, for this process."""
    for entry in filter(None, path.split(os.pathsep)):
        if not is_there(user_path(entry)):
            raise KilocardError(f"--facts: nothing at {entry}; name a YAML file of rows or a folder of them")
    if path:
        earlier = os.environ.get(FACTS_VARIABLE, "")
        os.environ[FACTS_VARIABLE] = os.pathsep.join(filter(None, [earlier, path]))


def _find(name: str) -> facts.Card | facts.Model | facts.Link:
    for rows in (facts.cards(), facts.links()):
        if found := rows.get(id_of(name)):
            return found
    known = list(chain.from_iterable(rows() for rows in SECTIONS.values()))
    try:
        return facts.model(name)
    except KilocardError:
        if looks_like_path(name):
            raise
        raise KilocardError(f"no fact named {name!r}: {near_match(name, [*known, *SECTIONS])}") from None


def _row(row: facts.Card | facts.Model | facts.Link) -> dict[str, Any]:
    content = asdict(row)
    if isinstance(row, facts.Model):
        content["parameters"] = parameters(row)
        content["active_parameters"] = active_parameters(row)
        content["kv_bytes_per_token_bf16"] = row.kv_bytes_per_token(KvDtype.BF16)
        content["state_bytes_per_sequence"] = row.state_bytes_per_sequence()
        content["valid_tensor_parallel"] = valid_tensor_parallel(row)
    return content


def _print_sections(sections: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json({name: [_row(row) for row in rows.values()] for name, rows in sections.items()})
        return
    printer = console()
    for name, rows in sections.items():
        table = Table(title=name, title_justify="left", box=None, padding=(0, 2, 0, 0))
        for index, row in enumerate(rows.values()):
            cells = {**_columns(row), "kind": row.source.kind.value, "date": row.source.date}
            if not index:
                for title in cells:
                    table.add_column(title, no_wrap=title == "id")
            table.add_row(*map(plain, cells.values()))
        printer.print(table)
    printer.print("* unverified    ? unknown    `kilocard facts NAME` prints a whole row and its source")


def _columns(row: facts.Card | facts.Model | facts.Link) -> dict[str, str]:
    if isinstance(row, facts.Card):
        return _card_columns(row)
    return _model_columns(row) if isinstance(row, facts.Model) else _link_columns(row)


def _card_columns(card: facts.Card) -> dict[str, str]:
    def cell(field: str) -> str:
        return number(getattr(card, field)) + ("*" if field in card.unverified else "")

    peaks = " / ".join(cell(field) for field in ("bf16_tflops", "fp8_tflops", "int8_tops"))
    return {
        "id": card.id,
        "GB": cell("memory_gb"),
        "GB/s": cell("memory_bandwidth_gb_per_s"),
        "dense bf16 / fp8 TFLOP/s / int8 TOP/s": peaks,
        "link": card.link + ("*" if "link" in card.unverified else ""),
        "W": cell("board_power_w"),
    }


def _model_columns(model: facts.Model) -> dict[str, str]:
    total, active = parameters(model) / 1e9, active_parameters(model) / 1e9
    return {
        "id": model.id,
        "10^9 weights": f"{total:.4g}" + (f" ({active:.3g} active)" if model.moe else ""),
        "layers / hidden": f"{model.layers} / {model.hidden_size}",
        "heads / kv / size": "MLA"
        if model.mla
        else f"{model.attention_heads} / {model.kv_heads} / {model.head_dim}",
        "KV bytes a token, bf16": f"{model.kv_bytes_per_token(KvDtype.BF16):,}",
        "state bytes a sequence": f"{model.state_bytes_per_sequence():,}",
        "unverified": ", ".join(model.unverified),
    }


def _link_columns(link: facts.Link) -> dict[str, str]:
    return {
        "id": link.id,
        "name": link.name,
        "GB/s one way": number(link.one_way_gb_per_s),
        "GB/s both ways": number(link.both_ways_gb_per_s),
    }


def _print_row(row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(row)
        return
    absent = {name for name, value in row.items() if value in ("", (), None)} - set(row["unverified"])
    shown = ((name, _flat(value)) for name, value in row.items() if name not in absent | {"id"})
    print_pairs(row["id"], shown)


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flat(item)}" for name, item in value.items() if item not in (None, ""))
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "unknown" if value is None else str(value)
