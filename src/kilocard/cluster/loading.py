"""Weights on their way from the store to those who start: all share it, none gets more than its own wire."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Loading:
    """Bytes that each starter lacks, as of `at_s`; the store's bytes a second are shared evenly, and what one
    cannot take goes to nobody, for all wires are alike."""

    store_bytes_per_s: float
    wire_bytes_per_s: float
    left_bytes: dict[int, float] = field(default_factory=dict)
    at_s: float = 0.0

    @property
    def each_bytes_per_s(self) -> float:
        """What each gets now."""
        return min(self.wire_bytes_per_s, self.store_bytes_per_s / max(1, len(self.left_bytes)))

    def advance(self, now_s: float) -> list[int]:
        """Time goes by; returns who has all of it."""
        loaded = self.each_bytes_per_s * max(0.0, now_s - self.at_s)
        self.at_s = now_s
        self.left_bytes = {who: left - loaded for who, left in self.left_bytes.items()}
        done = [who for who, left in self.left_bytes.items() if left <= 1.0]
        for who in done:
            del self.left_bytes[who]
        return done

    def begin(self, who: int, size_bytes: float, now_s: float) -> list[int]:
        """One more; returns who has all of it by now."""
        done = self.advance(now_s)
        self.left_bytes[who] = size_bytes
        return done

    def stop(self, who: int, now_s: float) -> list[int]:
        """One has ended before it had all."""
        done = self.advance(now_s)
        self.left_bytes.pop(who, None)
        return done

    @property
    def next_s(self) -> float | None:
        """When the first has all, as things stand."""
        if not self.left_bytes:
            return None
        return self.at_s + min(self.left_bytes.values()) / self.each_bytes_per_s
