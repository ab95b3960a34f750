"""Exercises on a service: starts, settings, rolls."""

from __future__ import annotations

from math import ceil

from kilocard.lifecycle import Rules, back_off_s, batch_size
from kilocard.notebook.exercises.exercise import Exercise

WEIGHTS_GB, NODES, STORAGE_GB_PER_S = 141, 8, 10
LOAD_S, ANSWER_S, PERIOD_S = 20.0, 0.5, 60.0
NODES_LARGE, CARDS_PER_NODE, CARDS_EACH = 50, 8, 4
SLOTS, COPIES = 64, 2
HEADS, MOST_DEGREE = 40, 8
POOL, DRAIN_S, STOP_S, START_S, WATCH_S = 40, 120, 5, 90, 10
PEAK = 30
DIES_AFTER_S = 20.0
TOKENS, TPOT_S, PREFILL_S, SLEEP_S = 4096, 0.06, 4, 15


def _pull_s() -> float:
    return WEIGHTS_GB * NODES / STORAGE_GB_PER_S


def _kept_percent() -> float:
    return 100 * (LOAD_S + ANSWER_S) / PERIOD_S


def _fits() -> float:
    return float(NODES_LARGE * (CARDS_PER_NODE // CARDS_EACH))


def _cap() -> float:
    return float(SLOTS * COPIES)


def _degrees() -> float:
    return float(sum(HEADS % degree == 0 for degree in range(1, MOST_DEGREE + 1)))


def _roll_minutes() -> float:
    batches = ceil(POOL / batch_size(POOL, 0.25))
    return batches * (DRAIN_S + STOP_S + START_S + WATCH_S) / 60


def _pool_at_peak() -> float:
    return float(next(n for n in range(PEAK, 10 * PEAK) if n - batch_size(n, 0.25) >= PEAK))


def _given_up_s() -> float:
    rules = Rules()
    waits = sum(back_off_s(death, rules) for death in range(1, rules.most_deaths))
    return rules.most_deaths * DIES_AFTER_S + waits


def _grace_s() -> float:
    return SLEEP_S + PREFILL_S + TOKENS * TPOT_S


STARTS = (
    Exercise(
        "3.1.1",
        _pull_s,
        "s",
        lambda it: (
            f"Eight copies of 141 GB are 1,128 GB, at 10 GB/s in all {it:.0f} s, near two minutes, and "
            "nobody "
            "is done much before the others. One node alone has it in 14 s. Copy in a chain from node to "
            "node, "
            "or keep it on the nodes' own disks, and it is 14 s again, give or take."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {"one node is counted": WEIGHTS_GB / STORAGE_GB_PER_S},
    ),
    Exercise(
        "3.1.2",
        _kept_percent,
        "%",
        lambda it: (
            f"(20 + 0.5) ÷ 60 = {it:.0f} % of each minute for an answer of half a second, that is 0.8 %. "
            "And the "
            "resident engine keeps its card all day: 100 %. Neither is good at one request a minute: then "
            "many "
            "models share a card, or the card is given back."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {"the start is left out": 100 * ANSWER_S / PERIOD_S},
    ),
)

SETTINGS = (
    Exercise(
        "3.2.1",
        _fits,
        "replicas",
        lambda it: (
            f"A replica of four cards stays in one node, so a node of eight holds two: 50 × 2 = {it:.0f}. "
            "With "
            "three cards each it would also be two, and two cards of each node would stay idle: the file "
            "says so."
        ),
        tolerance_ratio=0.001,
    ),
    Exercise(
        "3.2.2",
        _cap,
        "requests",
        lambda it: (
            f"Each of the two data-parallel copies runs 64: {it:.0f}. The cap that nobody names is that "
            "number, "
            "256 at the most; a larger one is refused, for the rest would wait inside the engine."
        ),
        tolerance_ratio=0.001,
        mistakes=lambda: {"one copy is counted": float(SLOTS), "vLLM's default is taken": 256.0},
    ),
    Exercise(
        "3.2.3",
        _degrees,
        "degrees",
        lambda it: (
            f"1, 2, 4, 5 and 8 divide 40: {it:.0f}. On a node of eight cards 5 leaves three idle, so three "
            "of "
            "them are any use beside 1."
        ),
        tolerance_ratio=0.001,
        mistakes=lambda: {"only powers of two are counted": 4.0},
    ),
)

ROLLS = (
    Exercise(
        "3.3.1",
        _roll_minutes,
        "minutes",
        lambda it: (
            f"Batches of 10, so four of them: 4 × (120 + 5 + 90 + 10) s = 900 s = {it:.0f} minutes. Most "
            "of it is "
            "the drain, which is as long as the longest stream: cap max_tokens, or give long requests "
            "their pool."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "one after the other": POOL * (DRAIN_S + STOP_S + START_S + WATCH_S) / 60,
            "the drain is left out": 4 * (STOP_S + START_S + WATCH_S) / 60,
        },
    ),
    Exercise(
        "3.3.2",
        _pool_at_peak,
        "engines",
        lambda it: (
            f"N − ⌊N ÷ 4⌋ ≥ 30: {it:.0f}. A third more than the peak needs, not a quarter: the share is of "
            "the "
            "larger number. With 1.25 × 30 = 38 engines a batch of nine leaves 29."
        ),
        tolerance_ratio=0.001,
        mistakes=lambda: {"a quarter is added": 38.0, "nothing is added": float(PEAK)},
    ),
    Exercise(
        "3.3.3",
        _given_up_s,
        "s",
        lambda it: (
            f"Five lives of 20 s and four waits of 1, 2, 4 and 8 s: {it:.0f} s. Without a limit it would "
            "load "
            "weights once a minute for ever, from the same storage as everybody's."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {"the waits are left out": 5 * DIES_AFTER_S},
    ),
    Exercise(
        "3.3.4",
        _grace_s,
        "s",
        lambda it: (
            f"15 + 4 + 4,096 × 0.06 = {it:.0f} s, and some for the process itself. The default of 30 s "
            "cuts every "
            "answer of more than 200 tokens."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {"the sleep is left out": PREFILL_S + TOKENS * TPOT_S},
    ),
)

EXERCISES = (*STARTS, *SETTINGS, *ROLLS)
