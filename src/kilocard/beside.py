"""Work that goes on in a thread beside a block, and ends with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None], name: str, most_s: float | None = None) -> Iterator[None]:
    """Run `work` in a thread called `kilocard-NAME`. Its event is set when the block ends, and it is waited
    for, `most_s` at the longest."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,), name=f"kilocard-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(most_s)
