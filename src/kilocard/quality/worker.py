"""A model judged under each scheme, as a program of its own: the caller's process keeps no torch.

Reads one JSON object (`Assignment`) from its input and writes one line of JSON (`Observed`) for the model as
it is, and one for each scheme.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import asdict, dataclass
from typing import Any

from kilocard.quality.scheme import Scheme

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"


@dataclass(frozen=True, slots=True)
class Continued:
    """Prompts to be continued by the most likely token, so many times, all in one batch.

    Those of `tails` come after what is `shared`, those of `alone` after nothing.
    """

    tokens: int
    shared: str
    tails: tuple[str, ...]
    alone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """The folder of a model, the text that it is to predict, the prompts that it is to continue."""

    folder: str
    text: str
    text_tokens: int
    continued: Continued
    schemes: tuple[Scheme, ...]


@dataclass(frozen=True, slots=True)
class Observed:
    """What one set of weights did: −ln of the probability of each token of the text, the token it would have
    chosen there, and its continuations (of the tails, then of those alone), as tokens and as text."""

    weight_error: float
    losses: list[float]
    choices: list[int]
    outputs: list[list[int]]
    texts: list[str]


class Subject:
    """The model, its linear layers as they were, and its tokenizer."""

    def __init__(self, folder: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.model = model.eval().to(self.device)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        head = self.model.get_output_embeddings()
        layers = [module for module in self.model.modules() if isinstance(module, torch.nn.Linear)]
        self.layers = [layer for layer in layers if layer is not head]
        self.originals = [layer.weight.detach().clone() for layer in self.layers]

    def take(self, scheme: Scheme | None) -> float:
        """Round the linear layers, or put them back; returns the error as a share of the weights' size."""
        error = size = 0.0
        for layer, original in zip(self.layers, self.originals, strict=True):
            weights = original if scheme is None else scheme.rounded(original)
            error += float((weights - original).square().sum())
            size += float(original.square().sum())
            layer.weight.data = weights
        return math.sqrt(error / size)

    def read(self, text: str, tokens: int) -> tuple[list[float], list[int]]:
        """The loss of each token of the text after the first, and the token chosen in its place."""
        ids = self.tokenizer(text, return_tensors="pt").input_ids[:, :tokens].to(self.device)
        logits = self.model(ids).logits[0, :-1]
        losses = logits.logsumexp(-1) - logits.gather(1, ids[0, 1:, None])[:, 0]
        return losses.tolist(), logits.argmax(-1).tolist()

    def continue_(self, asked: Continued) -> list[list[int]]:
        """The most likely token after each prompt, and so on; what the prompts share is read once."""
        import torch

        prompts = self.tokenizer([*asked.tails, *asked.alone], return_tensors="pt", padding=True)
        ids, mask = prompts.input_ids.to(self.device), prompts.attention_mask.to(self.device)
        shared = self.tokenizer(asked.shared, return_tensors="pt").input_ids.to(self.device)
        cache = self.model(shared, use_cache=True).past_key_values
        cache.batch_repeat_interleave(len(ids))
        sees = mask.new_zeros(len(ids), shared.shape[1])
        sees[: len(asked.tails)] = 1
        mask = torch.cat([sees, mask], dim=1)
        chosen: list[Any] = []
        for _ in range(asked.tokens):
            places = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
            answer = self.model(
                ids, attention_mask=mask, position_ids=places, past_key_values=cache, logits_to_keep=1
            )
            ids, cache = answer.logits[:, -1].argmax(-1, keepdim=True), answer.past_key_values
            mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
            chosen.append(ids)
        tokens: list[list[int]] = torch.cat(chosen, dim=1).tolist()
        return tokens

    def observe(self, assignment: Assignment, scheme: Scheme | None) -> Observed:
        """All that is asked, under one scheme."""
        error = self.take(scheme)
        losses, choices = self.read(assignment.text, assignment.text_tokens)
        outputs = self.continue_(assignment.continued)
        texts = self.tokenizer.batch_decode(outputs, skip_special_tokens=True)
        return Observed(error, losses, choices, outputs, texts)


def main() -> None:
    """Do the assignment on the input."""
    import torch

    given = json.load(sys.stdin)
    assignment = Assignment(
        **{
            **given,
            "continued": Continued(**given["continued"]),
            "schemes": tuple(Scheme(**scheme) for scheme in given["schemes"]),
        }
    )
    torch.manual_seed(0)
    subject = Subject(assignment.folder)
    with torch.inference_mode():
        for scheme in (None, *assignment.schemes):
            print(json.dumps(asdict(subject.observe(assignment, scheme))), flush=True)


if __name__ == "__main__":
    main()
