"""What engines say of themselves: their models and versions, told to clients as they tell it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kilocard.gateway.house import Gateway
from kilocard.gateway.member import Member
from kilocard.gateway.placing import Placing

EVERY_S = 10.0
FIRST_S = 0.5
TIMEOUT_S = 5.0
MOST_BYTES = 2**20
PATH_IN_ROW = "root"
"""Where the engine found the weights: no client's business."""


async def learn_models(house: Gateway, placing: Placing) -> None:
    """Ask engines until each model is known, and now and then again."""
    while True:
        for station in placing.stations:
            for member in station.pool.members:
                if await _learn(house, member, station.pool.model):
                    break
        known = house.models.keys() >= {station.pool.model for station in placing.stations}
        await asyncio.sleep(EVERY_S if known else FIRST_S)


async def get(member: Member, path: str) -> bytes | None:
    """The body of a GET at an engine; None where there is none in time."""
    key = f"Authorization: Bearer {member.engine_key}\r\n" if member.engine_key else ""
    asked = f"GET {path} HTTP/1.1\r\nHost: {member.host}:{member.port}\r\n{key}Connection: close\r\n\r\n"
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(member.host, member.port, limit=MOST_BYTES)
            writer.write(asked.encode())
            top = await reader.readuntil(b"\r\n\r\n")
            if not top.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
                return None
            return await _body(reader, top.lower())
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    finally:
        if writer is not None:
            writer.close()


async def _body(reader: asyncio.StreamReader, top: bytes) -> bytes:
    length = top.partition(b"content-length:")[2].partition(b"\r\n")[0].strip()
    if length:
        return await reader.readexactly(min(int(length), MOST_BYTES))
    if b"transfer-encoding: chunked" not in top:
        return await reader.read(MOST_BYTES)
    pieces: list[bytes] = []
    size = 1
    while size and sum(map(len, pieces)) < MOST_BYTES:
        size = min(int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16), MOST_BYTES)
        pieces.append((await reader.readexactly(size + 2))[:-2])
    return b"".join(pieces)


async def _learn(house: Gateway, member: Member, model: str) -> bool:
    content = await get(member, "/v1/models")
    row = _row(content, model)
    if row is None:
        return False
    house.models[model] = msgspec.json.encode({name: row[name] for name in row if name != PATH_IN_ROW})
    context = row.get("max_model_len")
    if isinstance(context, int) and context > 0:
        house.intake.contexts[model] = context
    version = await get(member, "/version")
    if version is not None and isinstance(_json(version), dict):
        house.version = version
    return True


def _row(content: bytes | None, model: str) -> dict[str, Any] | None:
    """What a list of models says of one."""
    told = _json(content) if content else None
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
