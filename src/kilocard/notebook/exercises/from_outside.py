"""Exercises on a service from outside: manifests, eyes, and answers that differ."""

from __future__ import annotations

from math import ceil, exp

from kilocard.notebook.exercises.exercise import Exercise

REPLICAS, TP = 12, 4
LOAD_MINUTES, PROBE_S = 14, 10
CAP, UTILIZATION, IN_FLIGHT, WAITING = 96, 0.85, 780, 120
SCRAPE_S, EVALUATE_S, FOR_S, WINDOW_S = 5, 15, 300, 300
BUSY = (12, 11, 13, 12, 11, 12, 13, 28)
SERIES = (40, 3, 5)
LEAD = 0.05
CLOSE, LENGTH = 200, 300


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

EXERCISES = (*MANIFESTS, *EYES, *ANSWERS)
