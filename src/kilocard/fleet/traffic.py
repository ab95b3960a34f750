"""A demand drawn into requests: arrivals, lengths, what their prompts share, who follows whom; as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilocard.errors import KilocardError
from kilocard.fleet.room import require_room_for_requests
from kilocard.fleet.trace import HASHED_TOKENS, Recorded, read_trace
from kilocard.specs.demand import MOST_REQUESTS, Demand, Stage, lengths_of
from kilocard.workload import Arrivals

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Paths:
    """Named token streams that prompts run through: request `i` has `lengths[i]` of them from `starts[i]`
    on."""

    starts: Ints
    lengths: Ints
    streams: Ints
    end_tokens: Ints


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests as columns. `arrival_s` is infinite for one that follows another's answer by `gap_s`
    (`follows`), or, in a closed loop, whoever ends first; `stage` numbers the demand's stages."""

    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    stage: Ints
    priority: Ints
    follows: Ints
    gap_s: Floats
    paths: Paths
    closed_loop: bool = False

    def __len__(self) -> int:
        return len(self.arrival_s)


def draw_parts(demand: Demand, seed: int) -> tuple[Traffic, ...]:
    """All requests of a demand: closed-loop stages stand by themselves, one after the other."""
    if demand.trace is None:
        require_room_for_requests(demand)
    if demand.is_closed_loop:
        return tuple(draw_closed_loop(demand, stage, seed) for stage in range(len(demand.all_stages)))
    return (draw_traffic(demand, seed),)


def draw_traffic(demand: Demand, seed: int) -> Traffic:
    """The requests of a demand without closed-loop stages; the same seed always gives the same."""
    rng = np.random.default_rng(seed)
    if demand.trace is not None:
        return _as_recorded(demand, read_trace(demand.trace), rng)
    starts_s, stages = _openings(demand, rng)
    return _with_lengths(demand, starts_s, stages, rng)


def draw_closed_loop(demand: Demand, stage: int, seed: int) -> Traffic:
    """The requests of one closed-loop stage: `concurrency` at once, and one more with every answer."""
    level = demand.all_stages[stage]
    rng = np.random.default_rng((seed, stage))
    count, width = level.requests or 0, level.concurrency or 0
    arrival_s = np.where(np.arange(count) < width, 0.0, np.inf)
    drawn = _with_lengths(demand, arrival_s, np.full(count, stage), rng)
    return Traffic(**{name: getattr(drawn, name) for name in drawn.__slots__} | {"closed_loop": True})


def _as_recorded(demand: Demand, recorded: Recorded, rng: np.random.Generator) -> Traffic:
    """The requests of a trace, whose prompts begin alike where their blocks have the same ids."""
    count = len(recorded.arrival_s)
    lengths = np.array([len(ids) for ids in recorded.hash_ids] or [0] * count, np.int64)
    starts = np.cumsum(lengths) - lengths
    place = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    ends = np.minimum(HASHED_TOKENS * (place + 1), np.repeat(recorded.prompt_tokens - 1, lengths))
    blocks = np.concatenate([np.zeros(0, np.int64), *recorded.hash_ids])
    streams = np.unique(blocks, return_inverse=True)[1].astype(np.int64)
    return Traffic(
        arrival_s=recorded.arrival_s,
        prompt_tokens=recorded.prompt_tokens,
        output_tokens=recorded.output_tokens,
        stage=np.zeros(count, np.int64),
        priority=_priorities(demand, count, rng),
        follows=np.full(count, NOBODY),
        gap_s=np.zeros(count),
        paths=Paths(starts, lengths, streams, ends),
    )


def _openings(demand: Demand, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """When first turns arrive, and in which stage."""
    arrivals, stages, begin_s = [], [], 0.0
    for number, stage in enumerate(demand.all_stages):
        times_s = begin_s + _stage_arrivals(demand, stage, rng)
        arrivals.append(times_s)
        stages.append(np.full(len(times_s), number))
        begin_s += stage.duration_s or (float(times_s[-1]) - begin_s)
    if sum(map(len, arrivals)) * demand.conversation.count > MOST_REQUESTS:
        raise KilocardError(f"more than {MOST_REQUESTS:,} requests: lower a rate, a duration or the turns")
    return np.concatenate(arrivals), np.concatenate(stages)


def _stage_arrivals(demand: Demand, stage: Stage, rng: np.random.Generator) -> Floats:
    if stage.rate_per_s is None:
        raise KilocardError("a closed-loop stage stands alone: give every stage a concurrency, or none")
    ramp_s = stage.duration_s if stage.end_rate_per_s is not None else None
    process = Arrivals(stage.rate_per_s, demand.arrivals, demand.cv, stage.end_rate_per_s, ramp_s)
    if stage.requests is not None:
        return process.times(stage.requests, rng)
    expected = stage.expected_requests
    if expected > MOST_REQUESTS:
        raise KilocardError(f"{expected:,.10g} requests in a stage: at most {MOST_REQUESTS:,} are simulated")
    times_s = process.times(int(expected + 6 * (1 + demand.cv) * np.sqrt(expected) + 10), rng)
    kept: Floats = times_s[times_s <= (stage.duration_s or 0) * (1 + 1e-9)]
    if not len(kept):
        raise KilocardError(
            f"no request arrives in {stage.duration_s} s at {stage.rate_per_s}/s: make it longer"
        )
    return kept


def _with_lengths(demand: Demand, starts_s: Floats, stages: Ints, rng: np.random.Generator) -> Traffic:
    """Lengths and streams for conversations that begin at `starts_s`; a conversation's turns stand
    together."""
    turns = demand.conversation
    talks, count = len(starts_s), len(starts_s) * turns.count
    added = lengths_of(demand.prompt_tokens or 1).draw(count, rng)
    output = lengths_of(demand.output_tokens or 1).draw(count, rng)
    number = np.arange(count)
    turn, talk = number % turns.count, number // turns.count
    group, user = _sharing(demand, talks, rng)
    prompt = _grown(added, output, turns.count)
    if demand.distinct_prompts or (user is not None and turns.count == 1):
        prompt = _repeated(prompt, _identity(demand, talks, user))
    system_tokens = demand.system_prompts.tokens if demand.system_prompts else 0
    if demand.system_prompts and prompt.min() <= system_tokens:
        raise KilocardError(
            f"a prompt of {prompt.min()} tokens has no room for a system prompt of {system_tokens}: "
            "prompt_tokens is the whole prompt, make all of them longer"
        )
    priority = _priorities(demand, talks, rng)
    return Traffic(
        arrival_s=np.where(turn == 0, starts_s[talk], np.inf),
        prompt_tokens=prompt,
        output_tokens=output,
        stage=stages[talk].astype(np.int64),
        priority=priority[talk],
        follows=np.where(turn > 0, number - 1, NOBODY),
        gap_s=np.where(turn > 0, turns.think_s, 0.0),
        paths=_paths(demand, prompt, output, group, user, turns.count),
    )


def _grown(added: Ints, output: Ints, turns: int) -> Ints:
    """A turn's whole prompt: everything said before it in its conversation, and what it adds."""
    if turns == 1:
        return added
    said = np.cumsum((added + output).reshape(-1, turns), axis=1)
    before = np.concatenate([np.zeros((len(said), 1), np.int64), said[:, :-1]], axis=1)
    return (before.ravel() + added).astype(np.int64)


def _sharing(demand: Demand, talks: int, rng: np.random.Generator) -> tuple[Ints | None, Ints | None]:
    """Each conversation's system prompt, and its user where users are told apart."""
    shared = demand.system_prompts
    if shared is None:
        return None, None
    if shared.users_each is None:
        if demand.distinct_prompts:
            return np.arange(talks) % demand.distinct_prompts % shared.count, None
        return rng.integers(0, shared.count, talks), None
    user = np.arange(talks) % (shared.count * shared.users_each)
    return user % shared.count, user


def _identity(demand: Demand, talks: int, user: Ints | None) -> Ints:
    """Which whole prompt each request asks, where prompts repeat."""
    if demand.distinct_prompts:
        return np.arange(talks) % demand.distinct_prompts
    assert user is not None
    return user


def _repeated(prompt: Ints, identity: Ints) -> Ints:
    """The length that each prompt had when it was first asked."""
    _, first = np.unique(identity, return_index=True)
    return prompt[first][identity]


def _priorities(demand: Demand, talks: int, rng: np.random.Generator) -> Ints:
    if demand.priority is None:
        return np.zeros(talks, np.int64)
    shares = np.array(list(demand.priority.values()))
    return rng.choice(np.array(list(demand.priority), np.int64), talks, p=shares / shares.sum())


def _paths(
    demand: Demand, prompt: Ints, output: Ints, group: Ints | None, user: Ints | None, turns: int
) -> Paths:
    """System prompts are streams 0 to count − 1; then repeated prompts, or conversations, by number.

    A prompt's last token is computed always, so it is no part of what repeats.
    """
    count = len(prompt)
    first_talk = demand.system_prompts.count if demand.system_prompts else 0
    talk = np.arange(count) // turns
    columns: list[tuple[Ints, Ints]] = []
    if group is not None and demand.system_prompts:
        columns.append((group[talk], np.full(count, demand.system_prompts.tokens)))
    if turns > 1:
        columns.append((first_talk + talk, prompt + output))
    elif demand.distinct_prompts or user is not None:
        columns.append((first_talk + _identity(demand, count, user), prompt - 1))
    width = len(columns)
    if not width:
        nothing = np.zeros(count, np.int64)
        return Paths(nothing, nothing, np.zeros(0, np.int64), np.zeros(0, np.int64))
    streams, ends = (np.stack([column[part] for column in columns], axis=1).ravel() for part in (0, 1))
    return Paths(
        np.arange(count) * width, np.full(count, width), streams.astype(np.int64), ends.astype(np.int64)
    )
