"""Exercises on holding back: what a cap is worth, what a line without a limit costs, who waits how long."""

from __future__ import annotations

from kilocard.notebook.exercises.exercise import Exercise

PROMPT_S, STEP_S, TOKENS, IN_FLIGHT = 0.05, 0.02, 100, 10
ASKED_PER_S, DONE_PER_S, PEAK_S = 30.0, 20.0, 60.0
AGEING_S, INTERACTIVE_S, BATCH_S, BATCH_RANK = 30.0, 10.0, 600.0, 2
FIRST_TOKEN_S, PREFILL_P99_S = 2.0, 0.6
REPLICAS, CAP, GATEWAYS = 8, 12, 4


def _per_s() -> float:
    return IN_FLIGHT / (IN_FLIGHT * PROMPT_S + TOKENS * STEP_S)


def _last_waits_s() -> float:
    return (ASKED_PER_S - DONE_PER_S) * PEAK_S / DONE_PER_S


def _in_flight() -> float:
    return float(REPLICAS * (CAP // GATEWAYS) * (GATEWAYS - 1))


EXERCISES = (
    Exercise(
        "4.3.1",
        _per_s,
        "requests/s",
        lambda it: (
            f"It stays for 10 prompts and 100 steps: 10 × 0.05 + 100 × 0.02 = 2.5 s. Ten at a time make "
            f"10 ÷ 2.5 = {it:.3g} requests/s, at a TPOT of at most 25 ms. Twice the cap makes "
            "20 ÷ 3 = 6.7 requests/s at 30 ms: which of the two is right the promise says, not the formula."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "the prompts of the others are left out": IN_FLIGHT / (PROMPT_S + TOKENS * STEP_S),
            "one request at a time is counted": 1 / (PROMPT_S + TOKENS * STEP_S),
            "prompts are thought to cost nothing": IN_FLIGHT / (TOKENS * STEP_S),
        },
    ),
    Exercise(
        "4.3.2",
        _last_waits_s,
        "s",
        lambda it: (
            f"(30 − 20) × 60 = 600 requests stand in line when the peak ends, and 20 a second are done: "
            f"{it:.0f} s. Whoever comes right after the peak waits nearly as long, so the fleet is late for "
            "half a minute of quiet traffic. With a limit of 40 in line the last waits 2 s."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "the line is divided by what comes in": (ASKED_PER_S - DONE_PER_S) * PEAK_S / ASKED_PER_S,
            "requests are given for seconds": (ASKED_PER_S - DONE_PER_S) * PEAK_S,
            "all that was asked is taken as the line": ASKED_PER_S * PEAK_S / DONE_PER_S,
        },
    ),
    Exercise(
        "4.3.3",
        lambda: BATCH_RANK * AGEING_S + INTERACTIVE_S,
        "s",
        lambda it: (
            f"An interactive request that came more than 2 × 30 s after it goes behind it, and one before it "
            f"is served or gone within its 10 s: 2 × 30 + 10 = {it:.0f} s. The 600 s of batch's own wait are "
            "never reached while anything is served; they are for the time when nothing is."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "the wait of those before it is left out": BATCH_RANK * AGEING_S,
            "one rank of ageing is counted": AGEING_S + INTERACTIVE_S,
            "batch's own longest wait is taken": BATCH_S,
        },
    ),
    Exercise(
        "4.3.4",
        lambda: FIRST_TOKEN_S - PREFILL_P99_S,
        "s",
        lambda it: (
            f"What the gateway may spend is what the engine leaves: 2 − 0.6 = {it:.1f} s. With 2 s, all "
            "who waited longest would be let in just to be late, and would take a place from one that is not."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "the engine's own time is left out": FIRST_TOKEN_S,
            "the engine's time is added": FIRST_TOKEN_S + PREFILL_P99_S,
        },
    ),
    Exercise(
        "4.3.5",
        _in_flight,
        "requests",
        lambda it: (
            f"Each gateway owns 12 ÷ 4 = 3 places at each replica, 24 in all. Three of them have 3 × 24 = "
            f"{it:.0f} of 96. No gateway takes over a dead one's part by itself: it cannot know whether "
            "the other is dead or unreachable; a quarter of the capacity is the price until it is back, or "
            "until the file says three."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "the others are thought to take over its part": float(REPLICAS * CAP),
            "one gateway's part is given": float(REPLICAS * CAP // GATEWAYS),
        },
    ),
)
