"""A baseline: what one replica was seen to give, level by level of load."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from math import inf
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.record import Kind, Run
from kilocard.specs.slo import SLO
from kilocard.stats import summarise

CSV_COLUMNS = ("concurrency", "tpot_ms", "output_tokens_per_s")


@dataclass(frozen=True, slots=True)
class Level:
    """A replica with so many requests at once: seconds, and tokens a second of all of them; None is
    unknown."""

    concurrency: float
    tpot_s: float
    output_tokens_per_s: float | None = None
    ttft_s: float | None = None
    tpot_p99_s: float | None = None
    ttft_p99_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "tpot_s", "output_tokens_per_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:
                raise KilocardError(f"a level of a baseline has {name} {value:g}: give a number above 0")

    def is_within(self, slo: SLO) -> bool:
        """Whether it meets an SLO, as far as anybody knows: by its P99, or by its mean where that is all."""
        known = (
            (slo.ttft_p99_s, self.ttft_p99_s or self.ttft_s),
            (slo.tpot_p99_s, self.tpot_p99_s or self.tpot_s),
        )
        return all(limit is None or value is None or value <= limit for limit, value in known)


@dataclass(frozen=True, slots=True)
class Baseline:
    """Levels of one replica of `cards` cards, by load; where they come from, and as what."""

    levels: tuple[Level, ...]
    kind: Kind
    source: str
    model: str = ""
    card: str = ""
    weights: str | None = None
    cards: int = 1

    def __post_init__(self) -> None:
        if not self.levels:
            raise KilocardError(f"{self.source or 'the baseline'} has no level of load that can be used")

    def best_within(self, slo: SLO) -> Level:
        """The level of most tokens a second within the SLO."""
        told = [level for level in self.levels if level.output_tokens_per_s]
        if not told:
            raise KilocardError(f"no level of {self.source} tells its output_tokens_per_s: give at least one")
        within = [level for level in told if level.is_within(slo)]
        if not within:
            fastest = min(self.levels, key=lambda level: level.tpot_s)
            raise KilocardError(
                f"no level of {self.source} is within the SLO: the fastest takes {1e3 * fastest.tpot_s:.3g} "
                "ms a token; loosen the SLO, or bring a faster baseline"
            )
        return max(within, key=lambda level: level.output_tokens_per_s or 0.0)

    @property
    def most_at_once(self) -> int:
        """Requests at the highest load that was seen; nobody knows what comes beyond."""
        return int(max(level.concurrency for level in self.levels))


def read_baseline(path: Path | str) -> Baseline:
    """Of a run that `kilocard bench` made as a sweep, or of a table somebody published (CSV)."""
    place = Path(path).expanduser()
    return _published(place) if place.suffix == ".csv" else of_run(Run.read(place), str(path))


def of_run(run: Run, source: str = "the run") -> Baseline:
    """Each of a sweep's stages is a level."""
    levels = []
    for stage in summarise(run):
        rate, mean_s = stage.output_tokens_per_s, stage.tpot_s.mean
        if not rate or not mean_s:
            continue
        levels.append(
            Level(
                concurrency=stage.concurrency or rate * mean_s,
                tpot_s=mean_s,
                output_tokens_per_s=rate,
                ttft_s=stage.ttft_s.mean,
                tpot_p99_s=stage.tpot_s.p99,
                ttft_p99_s=stage.ttft_s.p99,
            )
        )
    stamp = run.stamp
    weights = stamp.settings.get("quantization") or stamp.settings.get("weights")
    return Baseline(
        tuple(sorted(levels, key=lambda level: level.concurrency)),
        stamp.kind,
        source,
        stamp.model,
        stamp.card,
        str(weights) if weights else None,
        int(stamp.settings.get("tensor_parallel_size") or 1),
    )


def _published(path: Path) -> Baseline:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise KilocardError(
            f"cannot read the baseline {path}: {getattr(error, 'strerror', None) or error}"
        ) from error
    if not rows or any(name not in rows[0] for name in CSV_COLUMNS):
        raise KilocardError(f"{path} is no table of a sweep: it needs the columns {', '.join(CSV_COLUMNS)}")
    try:
        levels = tuple(sorted(map(_level, rows), key=lambda level: level.concurrency))
    except (ValueError, TypeError) as error:
        raise KilocardError(f"{path}: {error}; give numbers") from error
    return Baseline(levels, Kind.PUBLISHED, str(path))


def _level(row: dict[str, str]) -> Level:
    rate, ttft_ms = row["output_tokens_per_s"].strip(), (row.get("ttft_ms") or "").strip()
    return Level(
        float(row["concurrency"]),
        float(row["tpot_ms"]) / 1e3,
        float(rate) if rate else None,
        float(ttft_ms) / 1e3 if ttft_ms else None,
    )
