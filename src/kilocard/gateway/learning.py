"""What engines say of themselves: their models and versions, told to clients as they tell it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kilocard.gateway.house import Gateway
from kilocard.gateway.member import Member
from kilocard.gateway.placing import Placing
from kilocard.gateway.question import ask
from kilocard.routing.health import Ending

EVERY_S = 10.0
FIRST_S = 0.5
TIMEOUT_S = 5.0
PATH_IN_ROW = "root"
"""Where the engine found the weights: no client's business."""


async def learn_models(house: Gateway, placing: Placing) -> None:
    """Ask engines until each model is known, and now and then again."""
    while True:
        for station in list(placing.stations):
            for member in list(station.pool.members):
                if await _learn(house, member, station.pool.model):
                    break
        known = house.models.keys() >= {station.pool.model for station in placing.stations}
        await asyncio.sleep(EVERY_S if known else FIRST_S)


async def _told(member: Member, path: bytes) -> bytes:
    """The body of a GET at an engine; empty where there is none in time."""
    heard = await ask(member, member.opening(path, b"GET") + b"\r\n", TIMEOUT_S)
    return heard.content if heard.ending is Ending.OK else b""


async def _learn(house: Gateway, member: Member, model: str) -> bool:
    content = await _told(member, b"/v1/models")
    row = _row(content, model)
    if row is None:
        return False
    house.models[model] = msgspec.json.encode({name: row[name] for name in row if name != PATH_IN_ROW})
    context = row.get("max_model_len")
    if isinstance(context, int) and context > 0:
        house.intake.contexts[model] = context
    version = await _told(member, b"/version")
    if isinstance(_json(version), dict):
        house.version = version
    return True


def _row(content: bytes, model: str) -> dict[str, Any] | None:
    """What a list of models says of one."""
    told = _json(content)
    rows = told.get("data") if isinstance(told, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("id") == model:
            return row
    return None


def _json(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
