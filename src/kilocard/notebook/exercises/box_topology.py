"""Exercises on a box's wiring: groups that stay on it, and what leaves it over the network."""

from __future__ import annotations

from kilocard.facts import link
from kilocard.network import Step, collective_timeout_s, meaning_of
from kilocard.notebook.exercises.exercise import Exercise
from kilocard.notebook.topologies import topology_of
from kilocard.parallel import Wire
from kilocard.topology import groups_within, largest_tp

PAIRS = "eight-a100-in-pairs"
REPLICA_TOKENS_PER_S, EVENT_BYTES = 2500, 250
CHUNK_S, DECODE_S = 0.9, 0.06


def _groups(size: int) -> float:
    return len(topology_of(PAIRS).cards) / size


def _by_node() -> float:
    return len(groups_within(topology_of(PAIRS), "NODE"))


def _ten_gigabit() -> float:
    rate = link("ethernet-10g").one_way_bytes_per_s
    assert rate, "the row has one"
    return rate


def _waits_ms(layers: int, rate_bytes_per_s: float) -> float:
    wire = Wire(0.0, rate_bytes_per_s)
    return 1000 * meaning_of(wire, Step(2, 8192, layers, 32), rate_bytes_per_s).decode_step_s


EXERCISES = (
    Exercise(
        "2.4.1",
        lambda: _groups(largest_tp(topology_of(PAIRS))),
        "replicas",
        lambda it: (
            "NVLink joins them in pairs, so the largest group that stays on it has two cards, and eight "
            f"cards make {it:.0f} replicas. Two cards of 80 GB hold the 72.7 GB of weights and leave 70 "
            "for engine and cache. Groups of four would cross NODE, PCIe through the CPU, twice a layer."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "a group may cross NODE": _by_node(),
            "all eight cards are made one group": 1.0,
            "a card is thought to hold it, with no room for cache": 8.0,
        },
    ),
    Exercise(
        "2.4.2",
        lambda: _ten_gigabit() / (REPLICA_TOKENS_PER_S * EVENT_BYTES),
        "replicas",
        lambda it: (
            "10 Gb/s ÷ 8 = 1.25 GB/s; a replica writes 2,500 × 250 = 625,000 bytes/s; 1.25 GB/s ÷ 0.625 MB/s "
            f"= {it:,.0f}. A thousand cards fill half a port, at the gateway, where all of it meets. The "
            "prompts that come in are less than that."
        ),
        tolerance_ratio=0.05,
        mistakes=lambda: {
            "bits are taken for bytes": 16_000.0,
            "the 4 bytes of a word are counted, not the event around it": _ten_gigabit() / 10_000,
        },
    ),
    Exercise(
        "2.4.3",
        lambda: _waits_ms(80, _ten_gigabit()),
        "ms",
        lambda it: (
            "A message is 32 × 8,192 × 2 bytes = 524,288 bytes. A ring of two sends 2 × ½ of it each way: "
            "524,288 ÷ 1.25 GB/s = 0.42 ms. Two a layer in 80 layers make 160 of them: "
            f"{it:.0f} ms, before the first start-up is counted, on a step whose weights take 15 ms "
            "on an H200. Nobody writes more than 12 tokens/s."
        ),
        mistakes=lambda: {
            "one allreduce a layer is counted": _waits_ms(40, _ten_gigabit()),
            "bits are taken for bytes": _waits_ms(80, 8 * _ten_gigabit()),
            "each rank sends the whole message twice": 2 * _waits_ms(80, _ten_gigabit()),
        },
    ),
    Exercise(
        "2.4.4",
        lambda: float(collective_timeout_s(CHUNK_S)[0]),
        "s",
        lambda it: (
            f"The longest normal step is the chunk's, 0.9 s, and 5 × 0.9 = 4.5, in whole seconds {it:.0f}; "
            "ten times would be 9. The allreduce's own 0.5 ms does not count: a rank sits in it for as long "
            "as the slowest rank computes. While the engine starts, leave the default."
        ),
        tolerance_ratio=0.1,
        mistakes=lambda: {
            "the decode step or the wire is taken as the normal time": float(
                collective_timeout_s(DECODE_S)[0]
            ),
            "ten times is taken as the least": float(collective_timeout_s(CHUNK_S)[1]),
            "vLLM's default is kept": 300.0,
        },
    ),
)
