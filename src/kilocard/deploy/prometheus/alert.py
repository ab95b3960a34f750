"""An alert rule with the two stories that try it: one sets it off, one must not."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Literal

from kilocard.deploy.prometheus.recording import GATEWAY
from kilocard.specs.cluster import ClusterSpec, Pool

Story = dict[str, str]
"""Series → its values, a minute apart, in promtool's way of writing them; {n} stands for their number."""
MARGIN_S, WINDOW_S = 120, 300.0


@dataclass(frozen=True, slots=True)
class Alert:
    """`fires` and `quiet` are stories; `labels` are those of the alert that the first one sets off, `always`
    those that the rule gives it whatever its expression tells. It looks back on `window_s` at the most."""

    name: str
    expr: str
    for_s: float
    severity: Literal["page", "ticket"]
    summary: str
    runbook: str
    fires: Story
    quiet: Story
    labels: dict[str, str] = field(default_factory=dict)
    always: dict[str, str] = field(default_factory=dict)
    window_s: float = WINDOW_S

    @property
    def minutes(self) -> int:
        """Of its stories: as long as it may take, and a little more."""
        return minutes_of(self.for_s, self.window_s)


def minutes_of(for_s: float, window_s: float = WINDOW_S) -> int:
    """Of the stories of an alert that must hold for so long."""
    return ceil((window_s + for_s + MARGIN_S) / 60)


def steady(value: float) -> str:
    """The same all the time."""
    return f"{value:g}+0x{{n}}"


def at_last(minutes: int, before: float, after: float) -> str:
    """One value for so many minutes, another from then on."""
    return f"{before:g}+0x{minutes - 1} {after:g}+0x{{n}}"


def growing(each_minute: float, first: float = 0) -> str:
    """A counter, or a line that gets longer."""
    return f"{first:g}+{each_minute:g}x{{n}}"


def labels_of(spec: ClusterSpec, pool: Pool, replica: str = "") -> dict[str, str]:
    """By which a pool's series are told apart, or those of a replica."""
    told = {"model": spec.model_of(pool), "pool": pool.name}
    return told | ({"replica": replica} if replica else {})


def series(metric: str, labels: dict[str, str]) -> str:
    """One of a gateway's, as it tells it."""
    told = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{GATEWAY}{metric}{{{told}}}"
