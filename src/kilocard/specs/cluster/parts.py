"""Names, hosts, ports, shares and times as a cluster file writes them: each with its bounds."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from kilocard.specs.numbers import Count, Number, Positive, Whole

LONGEST_NAME = 63
LONGEST_MODEL = 200
LONGEST_HOST = 253
MOST_CAP = 65_536
MOST_REPLICAS = 4096
MOST_BYTES = 2**31
LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
ANYWHERE = ("0.0.0.0", "::")
"""Addresses that stand for every interface of a machine."""


def _written_as_text(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError(f'a name is text: write it in quotes, "{value}"')
    return value


def checked_name(text: str) -> str:
    """A name as it is; ValueError where it is none."""
    if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9._:+-]{{0,{LONGEST_NAME - 1}}}", text):
        raise ValueError(
            f"a name is 1 to {LONGEST_NAME} letters, digits and any of . _ : + -, and begins with one of the "
            "first two"
        )
    return text


def _is_model(text: str) -> str:
    if not re.fullmatch(rf"[!#-\[\]-~]{{1,{LONGEST_MODEL}}}", text):
        raise ValueError(
            f"a model's name is 1 to {LONGEST_MODEL} printable ASCII characters without a space, a quote or "
            "a backslash"
        )
    return text


def _is_id(text: str) -> str:
    return text if re.fullmatch(r"\[[0-9a-f:.]+\]:\d+", text) else checked_name(text)


def host_of(text: str) -> str:
    """A host in its one form, an IPv6 address without brackets; ValueError where it is none."""
    bare = text.removeprefix("[").removesuffix("]")
    if _is_ip(bare):
        return bare
    labels = text.split(".")
    if len(text) > LONGEST_HOST or not all(re.fullmatch(LABEL, label) for label in labels):
        raise ValueError("a host is a name or an IP address, without a scheme, a port or a path")
    if all(label.isdigit() for label in labels):
        raise ValueError("it is no IP address: four numbers of 0 to 255 are one, like 127.0.0.1")
    return text.lower()


def _is_ip(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


Name = Annotated[str, BeforeValidator(_written_as_text), AfterValidator(checked_name)]
Id = Annotated[str, BeforeValidator(_written_as_text), AfterValidator(_is_id)]
"""A name, or the place of an engine."""
ModelName = Annotated[str, BeforeValidator(_written_as_text), AfterValidator(_is_model)]
Host = Annotated[str, AfterValidator(host_of)]
Port = Annotated[Count, Field(le=65_535)]
Share = Annotated[Number, Field(ge=0, le=1)]
SomeShare = Annotated[Positive, Field(le=1)]
Cap = Annotated[Whole, Field(ge=0, le=MOST_CAP)]
"""The most requests in flight; 0 for no limit."""
Bytes = Annotated[Count, Field(le=MOST_BYTES)]


def is_loopback(host: str) -> bool:
    """Whether only programs of the same machine reach this address."""
    return host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)


def joined(host: str, port: int) -> str:
    """`host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
