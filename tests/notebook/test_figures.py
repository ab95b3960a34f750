"""What the figures say in words must be what the numbers say."""

import pytest

from kilocard.memory import ledger
from kilocard.notebook import figures, style
from kilocard.notebook.figures import tables
from kilocard.notebook.figures.ledger import parts_gb
from kilocard.notebook.records import SWEEPS, published_sweep
from kilocard.record import Kind, Run, Stamp
from kilocard.roofline import roofline


@pytest.fixture
def shown(monkeypatch):
    pages: list[str] = []
    monkeypatch.setattr(style, "display", lambda thing: pages.append(thing.data))
    monkeypatch.setattr(tables, "display", lambda thing: pages.append(thing.data))
    return pages


def run_of(rows, samples=()):
    stamp = Stamp(Kind.EMULATED, "m", "engine", "1", "card", {"name": "box"}, "2026-11-29T00:00:00+00:00",
                  workload={"stages": {"0": {"concurrency": 1}, "1": {"concurrency": 2}}})  # fmt: skip
    return Run.from_rows(rows, stamp, samples)


def request(number, sent, first, last, tokens, stage=0):
    times = {"sent_s": sent, "first_token_s": first, "last_token_s": last}
    counts = {"prompt_tokens": 4, "output_tokens": tokens, "stage": stage}
    return {"request_id": str(number), "status": "ok", **times, **counts}


def test_life_of_requests_says_median_worst_and_end(shown):
    run = run_of([request(1, 1.0, 1.5, 3.0, 4), request(2, 1.0, 3.0, 5.0, 4), request(3, 1.0, 1.5, 2.0, 4)])
    figures.life_of_requests(run, title="t")
    assert "after 0.5 s for half of them, after 2 s at worst; the last bar ends at 4 s" in shown[0]
    assert "emulated · card" in shown[0]


def test_engine_load_says_the_peaks(shown):
    rows = [{"t_s": t, "replica": "r", "running": r, "waiting": w, "kv_used_ratio": k}
            for t, r, w, k in ((0, 0, 0, 0.0), (1, 32, 16, 0.09), (2, 16, 0, 0.04))]  # fmt: skip
    figures.engine_load_figure(run_of([request(1, 0, 1, 2, 3)], rows), title="t", cap=32)
    assert "over 2 seconds: at most 32 requests running, 16 waiting, 9.0 % of the KV cache" in shown[0]


def test_sweep_of_a_run_has_its_levels(shown):
    rows = [request(n, n, n + 0.5, n + 2.5, 5) for n in range(12)]
    rows += [request(20 + n, n, n + 0.5, n + 4.5, 5, stage=1) for n in range(12)]
    sweep = figures.Sweep.of(run_of(rows), "engine")
    assert list(sweep.concurrency) == [1, 2]
    assert sweep.tpot_s == pytest.approx([0.5, 1.0])
    assert sweep.kind is Kind.EMULATED


@pytest.mark.parametrize("name", SWEEPS)
def test_published_sweeps_are_read_and_missing_throughput_is_implied(name):
    sweep = figures.Sweep.published(name, published_sweep(name))
    assert sweep.kind is Kind.PUBLISHED and len(sweep.concurrency) >= 3
    for level, rate, tpot in zip(sweep.concurrency, sweep.output_tokens_per_s, sweep.tpot_s, strict=True):
        assert rate <= level / tpot * 1.06, "more tokens than the requests in flight can write"


def test_no_published_sweep_beats_the_bound_of_its_card():
    """Beating the bound would mean a setting misread; NIM's precision is not told, so take FP8."""
    for name, model, card, weights in (
        ("qwen27b_int4_k100ai", "qwen3.8-27b", "k100-ai", "int4"),
        ("llama31_8b_h100_vllm021", "llama-3.1-8b", "h100-sxm", "bf16"),
        ("llama31_8b_h100_nim18", "llama-3.1-8b", "h100-sxm", "fp8"),
    ):
        table = published_sweep(name).table
        for level, tpot_ms in zip(table["concurrency"], table["tpot_ms"], strict=True):
            bound = roofline(model, card, weights=weights, batch=int(level), context=1)
            assert tpot_ms / 1000 >= bound.decode_step_s


def test_ledger_parts_add_up_to_its_total():
    account = ledger("qwen3.8-27b", "k100-ai", weights="int4", context=4096, concurrency=8)
    parts = parts_gb(account)
    assert sum(parts) == pytest.approx(account.total_bytes / 1e9)


def test_table_aligns_numbers_and_escapes_words(shown):
    tables.table(["what", "n"], [["<b>", 1234], ["–", None]], title="t", stamp="derived")
    assert "&lt;b&gt;" in shown[0] and "1,234" in shown[0]
    assert shown[0].count("text-align:right") == 4, "head, two numbers, and the stamp"


def test_roofline_alt_names_the_ridge(shown):
    bound = roofline("qwen3-8b", "h100-sxm", batch=8, context=1024)
    work = [figures.Work.decode(bound), figures.Work.prefill(bound)]
    figures.roofline_figure([figures.Roof.of(bound)], work, title="t", stamp="derived")
    assert "passes from memory to compute at 295 FLOP per byte" in shown[0]
    assert all(item.flops_per_s <= bound.peak_flops_per_s * 1.0001 for item in work)
