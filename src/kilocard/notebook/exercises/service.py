"""Exercises on a service: starts, settings, rolls, manifests, eyes, and answers that differ."""

from __future__ import annotations

from math import ceil, exp

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
REPLICAS, TP = 12, 4
LOAD_MINUTES, PROBE_S = 14, 10
CAP, UTILIZATION, IN_FLIGHT, WAITING = 96, 0.85, 780, 120
SCRAPE_S, EVALUATE_S, FOR_S, WINDOW_S = 5, 15, 300, 300
BUSY = (12, 11, 13, 12, 11, 12, 13, 28)
SERIES = (40, 3, 5)
LEAD = 0.05
CLOSE, LENGTH = 200, 300


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


def _surge_cards() -> float:
    return float(ceil(0.25 * REPLICAS) * TP)


def _failures() -> float:
    return float(ceil(60 * LOAD_MINUTES / PROBE_S))


def _wanted() -> float:
    return float(ceil((IN_FLIGHT + WAITING) / (UTILIZATION * CAP)))


def _known_s() -> float:
    return WINDOW_S / 2 + SCRAPE_S + EVALUATE_S + FOR_S


def _over_percent() -> float:
    mean = sum(BUSY) / len(BUSY)
    return 100 * (max(BUSY) / mean - 1)


def _series() -> float:
    replicas, priorities, ends = SERIES
    return float(replicas * priorities * ends)


def _other_drawn() -> float:
    return 100 / (1 + exp(LEAD))


def _turned() -> float:
    return 100 * (1 - (1 - 0.5 / CLOSE) ** LENGTH)


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

MANIFESTS = (
    Exercise(
        "3.4.1",
        _surge_cards,
        "cards",
        lambda it: (
            f"25 % of 12 are three more pods of four cards: {it:.0f}. There are none: 12 × 4 = 48 = 6 × 8. "
            "The new "
            "pods stay pending, and with maxUnavailable 25 % rounded down, three old ones go, so it does "
            "move; at "
            "a pool of three it would not."
        ),
        tolerance_ratio=0.001,
        mistakes=lambda: {"pods are counted": 3.0},
    ),
    Exercise(
        "3.4.2",
        _failures,
        "failures",
        lambda it: (
            f"840 s ÷ 10 s = {it:.0f}, and some more for a bad day. With 60 it is killed after ten "
            "minutes, and loads again."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {"minutes are taken for probes": 14.0},
    ),
    Exercise(
        "3.4.3",
        _wanted,
        "replicas",
        lambda it: (
            f"(780 + 120) ÷ (0.85 × 96) = 11.03, so {it:.0f}. By what runs alone it would be 9.6, and "
            "nobody would "
            "come: the ten are full, and the line is what tells."
        ),
        tolerance_ratio=0.001,
        mistakes=lambda: {"the line is left out": 10.0},
    ),
)

EYES = (
    Exercise(
        "3.5.1",
        _known_s,
        "s",
        lambda it: (
            f"150 + 5 + 15 + 300 = {it:.0f} s, near eight minutes. Each part is there for a reason, and "
            "together "
            "they are longer than most faults: shorten the window for what pages, not what it must hold for."
        ),
        tolerance_ratio=0.04,
        mistakes=lambda: {"the window is left out": float(SCRAPE_S + EVALUATE_S + FOR_S)},
    ),
    Exercise(
        "3.5.2",
        _over_percent,
        "%",
        lambda it: (
            f"The mean is 14, 28 is {it:.0f} % over it. Of the others' mean, 12, it would be 133 %: the "
            "outlier "
            "lifts what it is compared with."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {"the others' mean is taken": 133.3},
    ),
    Exercise(
        "3.5.3",
        _series,
        "series",
        lambda it: (
            f"40 × 3 × 5 = {it:.0f}. With a label for the client it is that times the number of clients, and "
            "clients choose their names: whoever counts by them lets strangers fill its memory."
        ),
        tolerance_ratio=0.001,
    ),
)

ANSWERS = (
    Exercise(
        "3.6.1",
        _other_drawn,
        "times",
        lambda it: (
            f"1 ÷ (1 + e^0.05) = {it:.1f} %. A lead of 0.05 nats is next to none, for chance as for rounding."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {"a lead is thought to win": 0.0001},
    ),
    Exercise(
        "3.6.2",
        _turned,
        "answers",
        lambda it: (
            f"1 − (1 − 1 ÷ 400)^300 = {it:.0f} %. Long answers nearly always differ somewhere; so never "
            "compare "
            "whole texts."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {"every close call is thought to turn": 100 * (1 - (1 - 1 / CLOSE) ** LENGTH)},
    ),
)

EXERCISES = (*STARTS, *SETTINGS, *ROLLS, *MANIFESTS, *EYES, *ANSWERS)
