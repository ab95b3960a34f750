"""API keys: made at random, kept as hashes, compared in constant time.

A key has 256 random bits, so one round of SHA-256 keeps it: nobody guesses it from its hash. A file of keys
holds one a line, `NAME sha256:HEX [tenant=NAME] [expires=2027-06-30]`, with comments after `#`; a variable
may part them by semicolons instead. Several keys of one tenant let it change its key without a gap.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha256
from hmac import compare_digest
from math import inf

from kilocard.errors import KilocardError, near_match
from kilocard.facts.files import read_text, user_path
from kilocard.specs.cluster.access import Secret
from kilocard.specs.cluster.parts import checked_name
from kilocard.specs.cluster.pools import first_double
from kilocard.specs.cluster.secrets import looks_secret

PREFIX = "kc-"
"""Tells a key that leaked into a log or a repository for what it is."""
RANDOM_BYTES = 32
MOST_KEYS = 10_000
OPTIONS = ("tenant", "expires")
FORM = "write NAME sha256:HEX, as `kilocard gateway-key NAME` prints it"


@dataclass(frozen=True, slots=True)
class Key:
    """A key's hash, whose it is, and the moment from which it is refused, in seconds since 1970."""

    name: str
    tenant: str
    digest: bytes = field(repr=False)
    expires_s: float = inf


class KeyRing:
    """The keys that let somebody in."""

    __slots__ = ("keys",)

    def __init__(self, keys: tuple[Key, ...]) -> None:
        if double := first_double(key.name for key in keys):
            raise KilocardError(f"two keys are called {double}: give each a name of its own")
        if len({key.digest for key in keys}) < len(keys):
            raise KilocardError("one key is there under two names: make a key for each")
        self.keys = keys

    def find(self, presented: bytes, now_s: float) -> Key | None:
        """The key that was presented, unless it has expired: each hash is compared, whichever fits."""
        digest = sha256(presented).digest()
        found = None
        for key in self.keys:
            if compare_digest(key.digest, digest):
                found = key
        return found if found is not None and now_s < found.expires_s else None

    @property
    def tenants(self) -> frozenset[str]:
        """Whose keys they are."""
        return frozenset(key.tenant for key in self.keys)


def make_key(name: str, tenant: str | None = None, expires: date | None = None) -> tuple[str, str]:
    """A new key, to be shown once and kept by its user, and its line for the file of keys."""
    if expires and expires < datetime.now(UTC).date():
        raise KilocardError(f"expires {expires} is past: the key would open nothing; give a later day")
    if tenant == "":
        raise KilocardError("the tenant has no name: give one, or leave it out for the key's own")
    key = PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
    options = [f"tenant={_name(tenant)}"] if tenant else []
    options += [f"expires={expires.isoformat()}"] if expires else []
    return key, " ".join([_name(name), f"sha256:{sha256(key.encode()).hexdigest()}", *options])


def presented_key(authorization: bytes) -> bytes:
    """What follows `Bearer` in a header; empty where it holds no key."""
    scheme, _, key = authorization.strip().partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""


def read_keys(place: Secret) -> KeyRing:
    """The keys in a file or a variable; read again, a new ring. A fault leaves the ring that one has."""
    return keys_from(read_secret(place), _told(place))


def read_secret(place: Secret) -> str:
    """The text of a secret; what is wrong is told without it."""
    if place.variable is not None:
        text = os.environ.get(place.variable)
        if not text:
            raise KilocardError(f"{_told(place)} is not set: set it, or name another place")
        return text.strip()
    path = user_path(place.file or "")
    try:
        if path.stat().st_mode & stat.S_IWOTH:
            raise KilocardError(f"anybody may write to {path}, and let themselves in: chmod o-w {path}")
        return read_text(path).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text of a regular file"
        raise KilocardError(f"cannot read {path}: {reason}; name the file of keys or secrets") from error


def read_key(place: Secret) -> str:
    """One key, as a header carries it."""
    key = read_secret(place)
    if not key or not all("!" <= sign <= "~" for sign in key):
        raise KilocardError(
            f"{_told(place)} holds no single key: write one, on one line, in printable ASCII without spaces"
        )
    return key


def keys_from(text: str, told: str = "the keys") -> KeyRing:
    """The keys that a text lists."""
    keys: list[Key] = []
    for place, entry in _entries(text):
        if len(keys) == MOST_KEYS:
            raise KilocardError(f"{told}: more than {MOST_KEYS:,} keys; each request is compared with all")
        try:
            keys.append(_key(entry))
        except ValueError as error:
            raise KilocardError(f"{told}, line {place}: {error}") from None
    if not keys:
        raise KilocardError(f"{told}: no key is there, so nobody could come in: {FORM}")
    try:
        return KeyRing(tuple(keys))
    except KilocardError as error:
        raise KilocardError(f"{told}: {error}") from None


def _entries(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        for entry in line.partition("#")[0].split(";"):
            if entry.strip():
                yield number, entry.strip()


def _key(entry: str) -> Key:
    if looks_secret(entry):
        raise ValueError(f"a key itself stands there, and was seen: make a new one; {FORM}")
    name, *words = entry.split()
    if not words or not re.fullmatch(r"sha256:[0-9a-f]{64}", words[0]):
        raise ValueError(f"it holds no hash of a key, 64 lower-case digits of base 16: {FORM}")
    given: dict[str, str] = {}
    for word in words[1:]:
        option, _, value = word.partition("=")
        if option not in OPTIONS:
            raise ValueError(f"unknown option {option[:20]!r}: {near_match(option[:20], OPTIONS)}")
        if option in given:
            raise ValueError(f"{option} is there twice")
        given[option] = value
    digest = bytes.fromhex(words[0].removeprefix("sha256:"))
    tenant = checked_name(given.get("tenant", name))
    return Key(checked_name(name), tenant, digest, _end_s(given["expires"]) if "expires" in given else inf)


def _end_s(text: str) -> float:
    """The end of that day, UTC."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        raise ValueError(f"expires={text[:20]} is no day: write it like expires=2027-06-30")
    try:
        day = datetime.combine(date.fromisoformat(text), time(), UTC)
        return (day + timedelta(days=1)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ValueError(f"expires={text} is no day: write it like expires=2027-06-30") from error


def _name(text: str) -> str:
    try:
        return checked_name(text)
    except ValueError as error:
        raise KilocardError(f"{text[:80]!r} is no name of a key: {error}") from error


def _told(place: Secret) -> str:
    return place.file or f"the variable {place.variable}"
