"""Allreduces for a chapter: of this box or the book's record, as others published them, and in a step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from kilocard import facts
from kilocard.collectives import Measured, Operation, SizeTime, measure
from kilocard.engine_model.calibration import calibration_for
from kilocard.engine_model.step_time import engine_fabric, step_time
from kilocard.errors import KilocardError
from kilocard.notebook.figures import Curve
from kilocard.notebook.records import PUBLISHED, ROOT, measured_folder
from kilocard.parallel import Fabric, fabric
from kilocard.record import Kind
from kilocard.record.stamp import stamp_from
from kilocard.roofline.collective import ALLREDUCES_PER_LAYER, message_bytes
from kilocard.specs.interconnect import Interconnect

NAME = "allreduce.json"
CHAT_TOKENS = 1024
LINKS = {
    "nvlink4": "NVLink 4", "pcie5-x16": "PCIe 5", "pcie4-x16": "PCIe 4", "rdma-400g": "RDMA 400",
    "rdma-200g": "RDMA 200", "ethernet-100g": "100 GbE", "ethernet-25g": "25 GbE", "ethernet-10g": "10 GbE",
}  # fmt: skip
MODEL, CARD, CARDS = "llama-3.1-70b", "h100-sxm", 8
ALLREDUCES = ALLREDUCES_PER_LAYER * facts.model(MODEL).layers


def allreduces() -> Measured:
    """Two processes of this box measured, and kept; without torch the record of another box."""
    if find_spec("torch") is None:
        return read_allreduces(_kept())
    found = measure(2)
    write_allreduces(found, measured_folder() / found.stamp.box["name"] / NAME)
    return found


def write_allreduces(found: Measured, path: Path) -> None:
    """Write what `read_allreduces` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")


def read_allreduces(path: Path) -> Measured:
    """A measurement that was kept."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Measured(
            **{
                **content,
                "operation": Operation(content["operation"]),
                "times": tuple(SizeTime(**row) for row in content["times"]),
                "stamp": stamp_from(content["stamp"]),
            }
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        reason = str(error).splitlines()[0][:80]
        raise KilocardError(f"{path} is no measured allreduce ({reason}): restore it with git") from error


def _kept() -> Path:
    for folder in dict.fromkeys((measured_folder(), ROOT / "data" / "measured")):
        if found := sorted(folder.glob(f"*/{NAME}")):
            return found[0]
    raise KilocardError("no kept allreduces, and no torch to measure any: install torch")


def published_allreduces() -> pd.DataFrame:
    """What others measured: link, cards, software, size_bytes, us, source."""
    return pd.read_csv(PUBLISHED / "allreduce_points.csv")


def published(name: str, link: str, colour: str, software: str = "NCCL") -> Curve:
    """Their points on a link: microseconds by KiB."""
    rows = published_allreduces().query("link == @link and software == @software")
    kib = (rows["size_bytes"] / 1024).tolist()
    return Curve(name, kib, rows["us"].tolist(), Kind.PUBLISHED, colour)


def on_link(link: str) -> Fabric:
    """Cards joined by that link alone, as far as others measured it: of a network, a card a machine."""
    return fabric(CARD, Interconnect(link=link))


def errors_on_published(link: str, cards: int, software: str = "NCCL") -> list[float]:
    """The link's line ÷ published − 1, point by point."""
    rows = published_allreduces().query("link == @link and cards == @cards and software == @software")
    told_s = on_link(link).allreduce_s(rows["size_bytes"].to_numpy(), cards)
    return list((told_s / (rows["us"].to_numpy() * 1e-6) - 1).tolist())


@dataclass(frozen=True, slots=True)
class StepOnLink:
    """A step of a tensor-parallel group over one link: in all, and what its allreduces take of it."""

    link: str
    step_ms: float
    allreduces_ms: float

    @property
    def own_ms(self) -> float:
        """The step without them."""
        return self.step_ms - self.allreduces_ms

    @property
    def share_percent(self) -> float:
        """Of the step, spent in allreduces."""
        return 100 * self.allreduces_ms / self.step_ms


def decode_steps(links: Iterable[str], requests: int) -> list[StepOnLink]:
    """One token for each of so many chats of 1,024 tokens: Llama-3.1-70B on eight H100s over each link."""
    return [_step(link, requests, requests * CHAT_TOKENS, requests) for link in links]


def prefill_steps(links: Iterable[str], tokens: int) -> list[StepOnLink]:
    """The first chunk of one prompt, of the same model on the same cards."""
    return [_step(link, tokens, tokens, 1, pairs=tokens**2 / 2) for link in links]


def gained_percent(batches: Sequence[int], link: str) -> list[float]:
    """Decode throughput that NVLink gives over that link, by requests in the step."""
    pairs = [decode_steps((facts.card(CARD).link, link), requests) for requests in batches]
    return [100 * (slow.step_ms / fast.step_ms - 1) for fast, slow in pairs]


def _step(link: str, tokens: int, kv_tokens: int, sequences: int, pairs: float = 0.0) -> StepOnLink:
    joined, found = Interconnect(link=link), calibration_for(CARD).coefficients
    times = step_time(MODEL, CARD, tp=CARDS, interconnect=joined, coefficients=found)
    size = message_bytes(facts.model(MODEL), tokens)
    each_s = float(engine_fabric(CARD, found, joined).allreduce_s(size, CARDS))
    step_s = times.step_s(tokens, kv_tokens, sequences, pairs)
    return StepOnLink(link, 1000 * step_s, 1000 * ALLREDUCES * each_s)
