"""The roofline: what a device can do at each arithmetic intensity, and where work lands under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from kilocard.notebook import style
from kilocard.record import Kind, Stamp
from kilocard.roofline import Roofline


@dataclass(frozen=True, slots=True)
class Roof:
    """A device's two limits."""

    name: str
    read_bytes_per_s: float
    flops_per_s: float
    kind: Kind
    colour: str = style.INK

    @classmethod
    def of(cls, bound: Roofline) -> Roof:
        """The roof of the card that a bound was computed for."""
        return cls(bound.card, bound.memory_bandwidth_bytes_per_s, bound.peak_flops_per_s, Kind.PUBLISHED)

    @property
    def ridge_flops_per_byte(self) -> float:
        """Below it memory limits, above it arithmetic does."""
        return self.flops_per_s / self.read_bytes_per_s


@dataclass(frozen=True, slots=True)
class Work:
    """Something that ran or would run: how much arithmetic a byte, and how fast."""

    name: str
    flops_per_byte: float
    flops_per_s: float
    kind: Kind
    colour: str

    @classmethod
    def decode(cls, bound: Roofline) -> Work:
        """A decode step, as fast as its bound allows."""
        rate = bound.decode_flops / bound.decode_step_s
        return cls(f"decode × {bound.batch}", bound.decode_flops_per_byte, rate, Kind.DERIVED, style.DECODE)

    @classmethod
    def prefill(cls, bound: Roofline) -> Work:
        """One prompt's prefill, as fast as its bound allows."""
        intensity, rate = bound.prefill_flops / bound.prefill_bytes, bound.prefill_flops / bound.prefill_s
        return cls(f"prefill {bound.context_tokens:,}", intensity, rate, Kind.DERIVED, style.PREFILL)


def roofline_figure(roofs: Sequence[Roof], work: Sequence[Work], *, title: str, stamp: Stamp | str) -> None:
    """Draw roofs and the work under them, both axes logarithmic."""
    with style.look():
        figure, axes = plt.subplots()
        reach = [item.flops_per_byte for item in work] + [roof.ridge_flops_per_byte for roof in roofs]
        intensity = np.geomspace(min(reach) / 3, max(reach) * 8, 200)
        for roof in roofs:
            bound = np.minimum(intensity * roof.read_bytes_per_s, roof.flops_per_s)
            axes.plot(intensity, bound / 1e12, **_roof_line(roof), label=f"{roof.name} ({roof.kind})")
        for item in work:
            _draw(axes, item)
        axes.set(xscale="log", yscale="log")
        axes.set_xlabel("Arithmetic intensity, FLOP per byte read (log)")
        axes.set_ylabel("TFLOP/s (log)")
        axes.legend(loc="lower right")
        style.show(figure, title=title, alt=_alt(roofs, work), stamp=stamp)


def _roof_line(roof: Roof) -> dict[str, object]:
    return {**style.line(Kind.DERIVED, roof.colour), "linewidth": 1.9 if roof.kind is Kind.MEASURED else 1.1}


def _draw(axes: plt.Axes, item: Work) -> None:
    face = item.colour if item.kind is Kind.MEASURED else "none"
    axes.plot(
        item.flops_per_byte, item.flops_per_s / 1e12, "o", color=item.colour, markerfacecolor=face, ms=6
    )
    axes.annotate(
        item.name,
        (item.flops_per_byte, item.flops_per_s / 1e12),
        xytext=(6, -13),
        textcoords="offset points",
        fontsize=9.5,
        color=item.colour,
    )


def _alt(roofs: Sequence[Roof], work: Sequence[Work]) -> str:
    limits = "; ".join(
        f"{roof.name} passes from memory to compute at {roof.ridge_flops_per_byte:.0f} FLOP per byte"
        for roof in roofs
    )
    points = "; ".join(
        f"{item.name}: {item.flops_per_byte:.3g} FLOP per byte, {item.flops_per_s / 1e12:.3g} TFLOP/s"
        for item in work
    )
    return f"Roofline, logarithmic. {limits}. {points}."
