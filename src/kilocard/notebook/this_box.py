"""The box in front of the reader as a card, by its own measured ceilings; or the card that is emulated."""

from __future__ import annotations

from datetime import UTC, datetime

from kilocard import facts
from kilocard.box import describe_box
from kilocard.ceilings import Ceilings, measure_ceilings
from kilocard.facts import Card, FactKind, Source
from kilocard.launch import Engine
from kilocard.launch.stand_in import recorded_box
from kilocard.notebook.measure import engine_cores
from kilocard.record import Kind, Run


def this_box(ceilings: Ceilings) -> Card:
    """A card whose rates are what `measure_ceilings` found; memory is the box's."""
    box = describe_box()
    source = Source(
        citation=f"measured on {box['name']}",
        link="",
        date=datetime.now(UTC).date().isoformat(),
        kind=FactKind.MEASURED,
    )
    return Card(
        id=box["name"],
        name=ceilings.device,
        memory_gb=box["memory_gib"] * 2**30 / 1e9,
        memory_bandwidth_gb_per_s=ceilings.read_bytes_per_s / 1e9,
        bf16_tflops=ceilings.matmul_flops_per_s / 1e12,
        fp8_tflops=0,
        int8_tops=0,
        link="pcie-unspecified",
        source=source,
    )


def ceilings_under(engine: Engine) -> Ceilings:
    """What the engine's device can do at most: measured now, or the rates of the card that is emulated."""
    if engine.kind is not Kind.EMULATED:
        return measure_ceilings(threads=engine_cores())
    card = _emulated(engine.card)
    peak = card.peak_flops_per_s(facts.WeightDtype.BF16)
    return Ceilings(card.name, 1, card.memory_bandwidth_bytes_per_s, peak)


def card_under(run: Run) -> Card:
    """The device that a run of this box was made on, as a card."""
    return _emulated(run.stamp.card) if run.stamp.kind is Kind.EMULATED else this_box(measure_ceilings())


def _emulated(name: str) -> Card:
    played = recorded_box()
    return played if played.id == name else facts.card(name)
