"""How far a run is: a bar on a terminal, one line a level anywhere else."""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from kilocard.load.recorder import Stage, describe_level
from kilocard.record import Status


class LevelLines:
    """Progress of a run on stderr, drawn only when asked: no thread of its own disturbs the run."""

    def __init__(self, stream: TextIO) -> None:
        console = Console(file=stream)
        self._stream = stream
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=console, auto_refresh=False, transient=True)
        self._task: tuple[int, TaskID] | None = None

    def show(self, stage: Stage | None, ended: int) -> None:
        """Draw the bar of the running stage."""
        if self._bar is None:
            return
        if stage is None:
            self._bar.stop()
            return
        if self._task is None or self._task[0] != stage.number:
            self._bar.start()
            self._task = (
                stage.number,
                self._bar.add_task(describe_level(stage.level), total=len(stage.requests)),
            )
        self._bar.update(self._task[1], completed=ended)
        self._bar.refresh()

    def stage_ended(self, stage: Stage, rows: list[dict[str, Any]]) -> None:
        """Write the line of a stage."""
        if self._bar is not None and self._task is not None:
            self._bar.remove_task(self._task[1])
            self._bar.stop()
            self._task = None
        print(_line(stage, rows), file=self._stream, flush=True)


def _line(stage: Stage, rows: list[dict[str, Any]]) -> str:
    ok = [row for row in rows if row["status"] == Status.OK and row["first_token_s"] is not None]
    text = f"{describe_level(stage.level)}: {len(ok)} of {len(rows)} requests ok"
    if not ok:
        return text
    ttft = sum(row["first_token_s"] - row["sent_s"] for row in ok) / len(ok)
    return f"{text}, mean TTFT {1000 * ttft:.1f} ms"
