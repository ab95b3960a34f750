"""Prompts with equal beginnings, found by content: a block by the hash of itself and all before it.

The engine model knows a prompt as a chain of named token streams. Here the names are given: what is met again
keeps its name, what follows is a new stream, or makes the last one longer where that one ended.
"""

from __future__ import annotations

from collections.abc import Iterable

Path = list[tuple[int, int]]
"""Streams, each with the tokens up to which the prompt runs through it."""

LEAST_MARKS = 4096
MOST_MARKS = 500_000


class PrefixNames:
    """Names of blocks; the longest unmet are forgotten, so that it holds up to twice `most` of them."""

    def __init__(self, block_tokens: int, kv_blocks: int) -> None:
        self._block_tokens = block_tokens
        self._most = min(max(LEAST_MARKS, kv_blocks), MOST_MARKS)
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._streams = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def path(self, blocks: Iterable[bytes]) -> Path:
        """The streams that a prompt of these whole blocks runs through."""
        path: Path = []
        mark = stream = before = 0
        end_tokens, known = 0, True
        for block in blocks:
            mark = hash((mark, block))
            found = self._find(mark) if known else None
            if found is None:
                if known:
                    known = False
                    found = stream if stream and self._ends.get(stream) == before else self._new_stream()
                else:
                    found = stream
                self._young[mark] = found
                self._ends[found] = mark
            end_tokens += self._block_tokens
            if found == stream:
                path[-1] = (stream, end_tokens)
            else:
                path.append((found, end_tokens))
            stream, before = found, mark
        if len(self._young) > self._most:
            self._old, self._young, self._ends = self._young, {}, {}
        return path

    def _find(self, mark: int) -> int | None:
        stream = self._young.get(mark)
        if stream is None and (stream := self._old.get(mark)) is not None:
            self._young[mark] = stream
        return stream

    def _new_stream(self) -> int:
        self._streams += 1
        return self._streams
