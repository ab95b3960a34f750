"""Figures that move without a kernel: sliders over frames computed beforehand, in plain HTML."""

from __future__ import annotations

import hashlib
import html
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from IPython.display import HTML, display

from kilocard.notebook.style import framed
from kilocard.record import Stamp

_SCRIPT = Path(__file__).with_name("interactive.js").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Slider:
    """One dimension of the figure: its name, the labels of its stops, where it stands at first."""

    name: str
    stops: tuple[str, ...]
    start: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.start < len(self.stops):
            raise ValueError(f"slider {self.name!r} starts at stop {self.start} of {len(self.stops)}")


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a stacked bar: what it is and its colour's name on the page."""

    name: str
    colour: str
    fallback: str


@dataclass(frozen=True, slots=True)
class Frame:
    """What is shown at one setting of the sliders: a value a segment, and a sentence."""

    values: tuple[float, ...]
    readout: str


def stacked_bar(
    *,
    title: str,
    sliders: Sequence[Slider],
    segments: Sequence[Segment],
    frame: Callable[[tuple[int, ...]], Frame],
    limit: float,
    limit_name: str,
    scale: float,
    unit: str,
    stamp: Stamp | str,
) -> None:
    """Show a stacked bar against a limit; `frame` is called once for every setting of the sliders."""
    settings = list(itertools.product(*(range(len(slider.stops)) for slider in sliders)))
    frames = {"-".join(map(str, setting)): frame(setting) for setting in settings}
    data = {
        "segments": [[part.name, f"var(--kc-{part.colour}, {part.fallback})"] for part in segments],
        "frames": {
            key: [[round(value, 3) for value in shown.values], shown.readout] for key, shown in frames.items()
        },
        "limit": round(limit, 3),
        "limitName": limit_name,
        "scale": round(scale, 3),
        "unit": unit,
    }
    first = html.escape(_at_first(sliders, segments, frames, unit))
    payload = json.dumps(data, separators=(",", ":"), sort_keys=True).replace("</", "<\\/")
    name = "kc-" + hashlib.sha256((title + payload).encode()).hexdigest()[:10]
    controls = "".join(_control(slider, name, number) for number, slider in enumerate(sliders))
    body = (
        f'<div class="kc-interactive" id="{name}"><div class="kc-controls">{controls}</div>'
        '<div class="kc-bar" role="img"></div><div class="kc-legend" aria-hidden="true"></div>'
        f'<p class="kc-readout" aria-live="polite">{first}</p>'
        "<noscript><p>The sliders need JavaScript; this is where they stand at first.</p></noscript>"
        f'<script type="application/json" class="kc-data">{payload}</script>'
        f'<script>{_SCRIPT}\nkilocardBar(document.getElementById("{name}"));</script></div>'
    )
    display(HTML(framed(body, title, stamp)))


def _at_first(
    sliders: Sequence[Slider], segments: Sequence[Segment], frames: Mapping[str, Frame], unit: str
) -> str:
    """The first frame in words, for a page whose scripts do not run."""
    first = frames["-".join(str(slider.start) for slider in sliders)]
    parts = (f"{part.name} {value:.1f}" for part, value in zip(segments, first.values, strict=True))
    return f"{', '.join(parts)} {unit}. {first.readout}"


def _control(slider: Slider, figure: str, number: int) -> str:
    identifier = f"{figure}-{number}"
    stops = html.escape(json.dumps(slider.stops), quote=True)
    return (
        f'<label for="{identifier}">{html.escape(slider.name)} '
        f'<output for="{identifier}">{html.escape(slider.stops[slider.start])}</output></label>'
        f'<input type="range" id="{identifier}" min="0" max="{len(slider.stops) - 1}" step="1" '
        f'value="{slider.start}" data-stops="{stops}">'
    )
