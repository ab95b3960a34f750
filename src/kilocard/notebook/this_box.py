"""The box in front of the reader as a card, by its own measured ceilings."""

from __future__ import annotations

from datetime import UTC, datetime

from kilocard.box import describe_box
from kilocard.ceilings import Ceilings
from kilocard.facts import Card, FactKind, Source


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
