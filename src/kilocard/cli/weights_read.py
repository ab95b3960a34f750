"""How far weights are verified: a bar on a terminal, a line at the begin and at each tenth anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rich.console import Console

from kilocard.cli.output import plain

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from kilocard.supervisor.checksums import Reading

GB = 10**9


class WeightsRead:
    """Drawn only when asked, as `LevelLines` is."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = Console(file=stream)
        self._bar: tuple[Progress, TaskID] | None = None
        self._told: tuple[str, int] = ("", 0)

    def show(self, reading: Reading | None) -> None:
        """What is read now, if anything."""
        if reading is None:
            self.make_room()
            self._told = ("", 0)
        elif self._console.is_terminal:
            self._draw(reading)
        else:
            self._say(reading)

    def make_room(self) -> None:
        """Something else is written now: the bar comes back with the next showing."""
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    def _say(self, reading: Reading) -> None:
        tenth = 10 * reading.done_bytes // max(1, reading.total_bytes)
        if (reading.model, tenth) != self._told:
            self._told = reading.model, tenth
            print(plain(weights_line(reading)), file=self._stream, flush=True)

    def _draw(self, reading: Reading) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
            bar = Progress(*columns, console=self._console, auto_refresh=False, transient=True)
            bar.start()
            self._bar = bar, bar.add_task("", total=reading.total_bytes)
        bar, task = self._bar
        about = f"verifying weights of {plain(reading.model)}"
        bar.update(task, description=about, total=reading.total_bytes, completed=reading.done_bytes)
        bar.refresh()


def weights_line(reading: Reading) -> str:
    """In one line."""
    done = f"{reading.done_bytes / GB:.1f} of " if reading.done_bytes else ""
    return f"verifying weights of {reading.model} ({done}{reading.total_bytes / GB:.1f} GB)"
