"""What a gateway grants a client and an engine: times, sizes, counts, second tries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from kilocard.specs.cluster.parts import Bytes, Share
from kilocard.specs.numbers import Count, Seconds, Tokens, Whole
from kilocard.specs.written import Written

MOST_CONNECTIONS = 1_000_000
MOST_RETRIES = 10


class Timeouts(Written):
    """How long a gateway waits for an engine.

    `first_byte_s` bounds a streamed answer's first byte, `between_chunks_s` each next one. The whole is
    bounded by the longest generation: max_tokens x `slowest_tpot_s` + `first_byte_s` + `margin_s`, or by
    `total_s` where that is given. A time-out of 3 to 5 s for the whole, the habit of web services, cuts what
    works.
    """

    connect_s: Seconds = 2.0
    first_byte_s: Seconds = 60.0
    between_chunks_s: Seconds = 30.0
    slowest_tpot_s: Annotated[Seconds, Field(le=60)] = 0.3
    margin_s: Seconds = 30.0
    total_s: Seconds | None = None

    @model_validator(mode="after")
    def _the_whole_is_longer_than_its_parts(self) -> Self:
        least_s = self.connect_s + self.first_byte_s
        if self.total_s is not None and self.total_s <= least_s:
            raise ValueError(
                f"total_s {self.total_s:g} is not over connect_s + first_byte_s = {least_s:g}: raise it, or "
                "leave it out for the longest generation"
            )
        return self

    def longest_s(self, max_tokens: int) -> float:
        """Seconds that a request of so many tokens may take at an engine, from when it is sent."""
        if self.total_s is not None:
            return self.total_s
        return self.first_byte_s + max_tokens * self.slowest_tpot_s + self.margin_s


class Limits(Written):
    """What a client may ask for and hold. Bytes and seconds are a request's; `connections` and `held_bytes`,
    of all bodies that are not answered yet, are a process's.

    `idle_s` ends a connection that asks nothing; `max_tokens` is the most that a request may ask to be
    written, and what is assumed of one that does not say.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "requests_per_s": "a tenant's limit stands in gateway.tenants",
        "tokens_per_s": "a tenant's limit stands in gateway.tenants",
        "queue": "it stands in gateway.queue.limit",
    }

    header_bytes: Annotated[Bytes, Field(ge=1024, le=2**20)] = 32 * 2**10
    header_s: Seconds = 10.0
    body_bytes: Annotated[Bytes, Field(ge=1024)] = 32 * 2**20
    body_s: Seconds = 60.0
    held_bytes: Annotated[Bytes, Field(ge=1024)] = 2**30
    idle_s: Seconds = 75.0
    connections: Annotated[Count, Field(le=MOST_CONNECTIONS)] = 16_384
    max_tokens: Tokens = 16_384


class Retries(Written):
    """Second tries, of requests that have not begun to be answered: at most so many each, and over all at
    most `budget` of the requests, so that a failing pool is not asked twice by everybody."""

    most: Annotated[Whole, Field(ge=0, le=MOST_RETRIES)] = 2
    budget: Share = 0.1
