"""A canary's answers, checked: it is asked the cluster file's samples, one after the other."""

from __future__ import annotations

import json
import re

from kilocard.launch import web
from kilocard.specs.cluster import Sample

TIMEOUT_S = 120.0


def is_good(sample: Sample, answer: str) -> bool:
    """Whether an answer is what its sample asks for."""
    if sample.contains is not None and sample.contains not in answer:
        return False
    if sample.matches is not None and not re.search(sample.matches, answer):
        return False
    return not sample.is_json or _is_json(answer)


def answered_well(url: str, model: str, sample: Sample, key: str = "") -> bool:
    """Ask an engine, without a gateway between, and without chance (temperature 0)."""
    body = {
        "model": model,
        "prompt": sample.prompt,
        "max_tokens": sample.max_tokens,
        "temperature": 0,
        "seed": 0,
    }
    try:
        told = web.post_json(f"{url}/v1/completions", body, TIMEOUT_S, key)
        return is_good(sample, str(told["choices"][0]["text"]))
    except (web.NoAnswerError, LookupError, TypeError):
        return False


def _is_json(answer: str) -> bool:
    try:
        json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return True
