"""Why an engine did not start, or died: the likely cause in its log, and the way out."""

from __future__ import annotations

import re

from kilocard.errors import KilocardError
from kilocard.launch.ranks import plain_line, rank_failure

TAIL_LINES = 400
"""A known cause is looked for at the log's end: what went well at the start warns of much."""
LONGEST = 300
WARNED = re.compile(r"(\([^)]*\) )?WARNING ")
CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"No module named '?vllm\b",
        "this Python has no vllm: install requirements-cpu.txt or requirements.txt",
    ),
    (
        r"unrecognized arguments?: (?P<detail>.+)",
        "unknown flag {detail}: see `python -m vllm.entrypoints.openai.api_server --help=all`",
    ),
    (r"error: argument (?P<detail>[^\n]+)", "bad flag: {detail}"),
    (
        r"[Aa]ddress already in use|Errno 98",
        "the port is taken: leave it out for a free one, or name another",
    ),
    (
        r"(?P<detail>\d[\d,]*)\) is larger than the maximum number of tokens that can be stored in KV|"
        r"larger than the available KV cache memory|No available memory for the cache blocks",
        "the model is too long for the KV cache: lower max_model_len, or raise kv_cache_memory_bytes "
        "(or gpu_memory_utilization)",
    ),
    (
        r"max_model_len \((?P<detail>\d+)\) is greater than the derived max_model_len",
        "max_model_len {detail} is more than the model was made for: lower it",
    ),
    (
        r"out of memory|OutOfMemory|Cannot allocate memory|less than (?:desired|requested) (?:\w+ )?memory|"
        r"is less than desired GPU memory utilization|std::bad_alloc|MemoryError|exit code -9\b",
        "out of memory: lower kv_cache_memory_bytes, max_model_len or gpu_memory_utilization, "
        "or take a smaller model",
    ),
    (r"No space left on device", "the disk is full: free some, also in the temporary folder"),
    (
        r"torchvision::nms does not exist",
        "torchvision does not belong to this torch: uninstall torchvision, torchaudio and torchcodec",
    ),
    (
        r"[Cc]annot find any (?:model )?weights|no such file[^\n]*safetensors|LocalEntryNotFound|"
        r"Repository Not Found|not a valid model identifier|Invalid repository ID|"
        r"does not appear to have a file named|Can't load the configuration",
        "weights or configuration missing: check the model's folder or id, and that the Hub can be reached",
    ),
    (
        r"(?P<detail>[\w.]*lib(?:iomp|tcmalloc|omp|gomp)[\w.]*)[^\n]*cannot (?:be preloaded|open shared)",
        "the library {detail} cannot be loaded: reinstall the packages of requirements-cpu.txt",
    ),
    (
        r"must be divisible by tensor parallel size \((?P<detail>\d+)\)",
        "tensor_parallel_size {detail} does not divide the model's attention heads: take one that does",
    ),
    (r"Model architectures? (?P<detail>\[[^\]]+\])[^\n]*not supported", "this vLLM does not know {detail}"),
)


class EngineError(KilocardError):
    """An engine that did not start or died; `log_tail` holds its last lines."""

    def __init__(self, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail


def likely_cause(log: str) -> str:
    """The cause that the log speaks of, in one line with the way out; else its last error line.

    Where a rank failed, its word counts: the engine's own last error says only that there was one.
    """
    tail = "\n".join(log.splitlines()[-TAIL_LINES:])
    return _known_cause(tail) or _shortened(rank_failure(log)) or _last_error(tail)


def _known_cause(log: str) -> str:
    for pattern, text in CAUSES:
        if found := re.search(pattern, log):
            detail = (found.groupdict().get("detail") or "").strip()
            return (
                text.format(detail=detail)
                if detail or "{detail}" not in text
                else text.replace("{detail} ", "")
            )
    return ""


def _last_error(log: str) -> str:
    errors = [
        line.strip()
        for line in log.splitlines()
        if re.search(r"\b\w*(Error|Exception)\b:? ", line) and not WARNED.match(line)
    ]
    return _shortened(plain_line(errors[-1])) if errors else "no cause found in its log"


def _shortened(line: str) -> str:
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."
