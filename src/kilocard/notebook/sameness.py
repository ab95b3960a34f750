"""Whether an engine says the same thing twice: alone, in company, by chance with a seed, beside another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kilocard.launch import web

TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Token by token: its text, and by how much it was ahead of the next best (nats; 0 is a tie)."""

    tokens: tuple[str, ...]
    lead: tuple[float, ...]

    @property
    def text(self) -> str:
        """As a reader sees it."""
        return "".join(self.tokens)


def ask(url: str, model: str, prompt: str, tokens: int = 48, **sampling: Any) -> Answer:
    """One answer, with what nearly was said in its place; temperature 0 unless told."""
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "logprobs": 2}
    told = web.post_json(f"{url}/v1/completions", {**body, "temperature": 0, **sampling}, TIMEOUT_S)
    choice = told["choices"][0]["logprobs"]
    leads = [_lead(row) for row in choice["top_logprobs"]]
    return Answer(tuple(choice["tokens"]), tuple(leads))


def ask_in_company(
    url: str, model: str, prompt: str, company: Sequence[str], tokens: int = 48, **sampling: Any
) -> Answer:
    """The same, while the engine answers others in the same steps."""
    with ThreadPoolExecutor(len(company) + 1) as threads:
        others = [threads.submit(ask, url, model, it, tokens) for it in company]
        mine = threads.submit(ask, url, model, prompt, tokens, **sampling)
        for other in others:
            other.result()
        return mine.result()


def parted_at(one: Answer, other: Answer) -> int | None:
    """The number of the first token that differs, from 0; None where none does."""
    pairs = zip(one.tokens, other.tokens, strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), None)


def _lead(row: dict[str, float] | None) -> float:
    if not row or len(row) < 2:
        return float("inf")
    first, second = sorted(row.values(), reverse=True)[:2]
    return first - second


def what_company_did(alone: Answer, parted: Mapping[str, int | None]) -> str:
    """In sentences: whether others changed the answer, and where."""
    places = [at for at in parted.values() if at is not None]
    if not places:
        return (
            f"Predicted: it parts where a lead is small. It did not part in {len(alone.tokens)} tokens: the "
            f"smallest lead was {min(alone.lead):.3f} nats, and on this box the additions of a batch of "
            "eight "
            "came out as those of one, or nearly so. On a GPU, with other kernels for other batches, "
            "expect it "
            "to."
        )
    first = min(places)
    rank = sorted(alone.lead).index(alone.lead[first]) + 1
    return (
        f"Predicted: it parts where a lead is small. It parted at token {first}, where the lead was "
        f"{alone.lead[first]:.3f} nats, number {rank} of {len(alone.lead)} from below. Seven neighbours, "
        "none of "
        "whom it ever sees, turned a near tie round."
    )
