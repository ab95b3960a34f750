"""Exercises on allreduces: what is said, what is sent, and what it costs."""

from __future__ import annotations

from kilocard import facts
from kilocard.notebook.allreduces import ALLREDUCES, on_link
from kilocard.notebook.exercises.exercise import Exercise
from kilocard.parallel import fit_wire
from kilocard.roofline.collective import message_bytes

KIB, MIB = 2**10, 2**20
TOKEN_BYTES = message_bytes(facts.model("llama-3.1-70b"), 1)
SMALL_S, LARGE_S = 20e-6, 1100e-6


def _said_kib() -> float:
    return message_bytes(facts.model("llama-3.1-8b"), 64) / KIB


def _one_user_ms() -> float:
    return 1000 * ALLREDUCES * float(on_link("ethernet-25g").allreduce_s(TOKEN_BYTES, 2))


def _bytes_alone_ms() -> float:
    return 1000 * ALLREDUCES * TOKEN_BYTES / on_link("ethernet-25g").inside.bytes_per_s


def _even_kib() -> float:
    wire = fit_wire([KIB, 32 * MIB], [SMALL_S, LARGE_S]).wire
    return wire.start_s * wire.bytes_per_s / KIB


EXERCISES = (
    Exercise(
        "2.3.1",
        _said_kib,
        "KiB",
        lambda it: (
            f"64 tokens × 4,096 × 2 bytes = {it:.0f} KiB, the same as 32 requests on the 70B, whose hidden "
            "size is twice as large. Context plays no part: what was read earlier stays in each card's cache."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "an element is taken for four bytes": 2 * _said_kib(),
            "an element is taken for one byte": _said_kib() / 2,
        },
    ),
    Exercise(
        "2.3.2",
        lambda: 2 * 7 / 8 * 32,
        "MiB",
        lambda it: (
            f"2 × 7 ÷ 8 × 32 MiB = {it:.0f} MiB. With two cards it would be 32, with sixty-four 63: a card's "
            "share hardly grows. What grows with the group is the sum over all cards, 448 MiB here, and the "
            "number of starts."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "the activation is multiplied by the degree": 256.0,
            "all cards are added up": 448.0,
            "only one of the ring's two rounds is counted": 28.0,
        },
    ),
    Exercise(
        "2.3.3",
        _one_user_ms,
        "ms",
        lambda it: (
            f"160 × (46 µs + 16 KiB ÷ 1.69 GB/s) = 160 × 55.7 µs = {it:.1f} ms; of these the bytes take 1.6. "
            "A network four times as fast leaves 7.9 ms of it. What they want is fewer starts or shorter "
            "ones: RDMA has 21 µs, the machine's own link 9."
        ),
        tolerance_ratio=0.05,
        mistakes=lambda: {
            "the starts are left out": _bytes_alone_ms(),
            "one allreduce a layer is counted": _one_user_ms() / 2,
        },
    ),
    Exercise(
        "2.3.4",
        _even_kib,
        "KiB",
        lambda it: (
            "The small one is all start, 20 µs. The bytes of the large one take 1,080 µs: they move at "
            f"31 GB/s. Start and bytes cost alike at 20 µs × 31 GB/s = {it:.0f} KiB. Below it buy shorter "
            "starts, above it a faster link. A 70B's decode step with 32 requests, 512 KiB, lies near it."
        ),
        tolerance_ratio=0.05,
        mistakes=lambda: {"two cards are taken to send the message twice": 2 * _even_kib()},
    ),
)
