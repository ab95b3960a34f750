"""Rounded weights beside the weights they were rounded from: on a text, in their answers, on a task."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev

import kilocard
from kilocard.errors import KilocardError
from kilocard.launch.model_files import embedded_model, torch_cache
from kilocard.processes import die_with_parent
from kilocard.quality.orders import ORDERS, SHOWN, TOKENS, parsed
from kilocard.quality.scheme import SCHEMES, Scheme
from kilocard.quality.worker import Assignment, Continued, Observed

TEXT = Path(kilocard.__file__).resolve().parents[2] / "data" / "texts" / "one-card.txt"
TEXT_TOKENS = 640
BASELINE = "as it is"
FREE_PROMPTS = (
    "The engine of the ship",
    "In the morning, the city",
    "A good teacher is",
    "Water boils when",
    "The history of the telephone begins",
    "To bake bread, you need",
    "The moon is",
    "When the train arrived,",
)


@dataclass(frozen=True, slots=True)
class Quality:
    """One scheme beside the weights it was rounded from. Shares are from 0 to 1.

    `perplexity_ratio` comes with twice its standard error, from the difference token by token. `same_choice`
    is over the text's tokens; `same_tokens` are those of a free answer before the first that differs.
    """

    scheme: str
    bits_per_weight: float
    weight_error: float
    perplexity: float
    perplexity_ratio: float
    perplexity_ratio_error: float
    same_choice: float
    same_tokens: float
    same_answers: float
    valid_json: float
    right_fields: float
    text_tokens: int
    answers: int
    order_answers: tuple[str, ...]
    """The first line of each answer to an order."""


def judge(schemes: Sequence[Scheme] = SCHEMES, folder: Path | None = None) -> list[Quality]:
    """The embedded model (or a folder in Hugging Face form) as it is and under each scheme: half a minute."""
    where = folder or embedded_model()
    inputs = int(json.loads((where / "config.json").read_text())["hidden_size"])
    assignment = Assignment(
        folder=str(where),
        text=TEXT.read_text(encoding="utf-8"),
        text_tokens=TEXT_TOKENS,
        continued=Continued(TOKENS, SHOWN, tuple(order.asked for order in ORDERS), FREE_PROMPTS),
        schemes=tuple(schemes),
    )
    seen = observe(assignment)
    bits = [16.0, *(scheme.bits_per_weight(inputs) for scheme in schemes)]
    names = [BASELINE, *(scheme.name for scheme in schemes)]
    return [compared(name, size, it, seen[0]) for name, size, it in zip(names, bits, seen, strict=True)]


def compared(name: str, bits_per_weight: float, seen: Observed, baseline: Observed) -> Quality:
    """What was seen of a scheme, against the baseline."""
    worse = [loss - before for loss, before in zip(seen.losses, baseline.losses, strict=True)]
    ratio = math.exp(fmean(worse))
    free = list(zip(seen.outputs[len(ORDERS) :], baseline.outputs[len(ORDERS) :], strict=True))
    answers = seen.texts[: len(ORDERS)]
    return Quality(
        scheme=name,
        bits_per_weight=bits_per_weight,
        weight_error=seen.weight_error,
        perplexity=math.exp(fmean(seen.losses)),
        perplexity_ratio=ratio,
        perplexity_ratio_error=2 * ratio * stdev(worse) / math.sqrt(len(worse)),
        same_choice=_share(a == b for a, b in zip(seen.choices, baseline.choices, strict=True)),
        same_tokens=fmean(_common(ours, theirs) for ours, theirs in free),
        same_answers=_share(ours == theirs for ours, theirs in free),
        valid_json=_share(parsed(answer) is not None for answer in answers),
        right_fields=fmean(order.right_fields(answer) for order, answer in zip(ORDERS, answers, strict=True)),
        text_tokens=len(worse),
        answers=len(free),
        order_answers=tuple(answer.strip().split("\n")[0] for answer in answers),
    )


def _share(held: Iterable[bool]) -> float:
    return fmean(map(float, held))


def _common(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """Tokens before the first that differs."""
    return next((at for at, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b), len(ours))


def observe(assignment: Assignment) -> list[Observed]:
    """Let a process of its own do the assignment; it ends with this one."""
    me = os.getpid()
    done = subprocess.run(
        [sys.executable, "-m", "kilocard.quality.worker"],
        input=json.dumps(asdict(assignment)),
        capture_output=True,
        text=True,
        check=False,
        env={"OMP_WAIT_POLICY": "PASSIVE", **torch_cache(), **os.environ},
        preexec_fn=lambda: die_with_parent(me),
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        raise KilocardError(f"the model cannot be judged ({last}): install torch and transformers")
    return [Observed(**json.loads(line)) for line in done.stdout.splitlines()]
