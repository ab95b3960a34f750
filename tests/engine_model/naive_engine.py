"""vLLM V1's scheduler and block pool once more, as plainly as can be: a list of blocks, a hash a block, a
plan a step. Slow, and independent of the engine model, which must agree with it request by request."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """An engine, and what its steps cost in picoseconds."""

    max_num_seqs: int = 8
    max_num_batched_tokens: int = 64
    block_tokens: int = 16
    kv_blocks: int = 40
    state_blocks: int = 0
    lag: int = 1
    waves: int = 0
    by_priority: int = 0
    prefix_caching: int = 1
    token_ps: int = 1_000
    step_ps: int = 1_000_000
    kv_token_ps: int = 7
    sequence_ps: int = 11_000
    prefill_step_ps: int = 500_000
    pair_ps: int = 3
    prefill_floor_ps: int = 1_700_000


@dataclass(eq=False)
class Asked:
    """One request. `path` names its prompt's token streams: prompts that begin alike have equal tokens.

    `known` tokens are there, `expected` more are being sampled; `target` is what it had when it began to run.
    """

    number: int
    arrival_ps: int
    prompt: int
    output: int
    priority: int = 0
    path: tuple[tuple[int, int], ...] = ()
    follows: int = -1
    gap_ps: int = 0

    known: int = field(default=0, init=False)
    expected: int = field(default=0, init=False)
    computed: int = field(default=0, init=False)
    target: int = field(default=0, init=False)
    blocks: list[int] = field(default_factory=list, init=False)
    state: list[int] = field(default_factory=list, init=False)
    hashed: int = field(default=0, init=False)
    preemptions: int = field(default=0, init=False)
    cached: int = field(default=-1, init=False)
    first_ps: int = field(default=-1, init=False)
    last_ps: int = field(default=-1, init=False)

    def hash_of(self, block: int, block_tokens: int) -> tuple[tuple[int, int], ...]:
        """A block's content and all before it: the stream that each token comes from, and its place."""
        return tuple(self._token(at) for at in range((block + 1) * block_tokens))

    def _token(self, at: int) -> tuple[int, int]:
        return next(((stream, at) for stream, end in self.path if at < end), (-1 - self.number, at))

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.priority, self.arrival_ps, self.number


class Pool:
    """All blocks: the free ones in a line whose front is used next, the hashes of what is still in them."""

    def __init__(self, blocks: int) -> None:
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(blocks))
        self.users = [0] * blocks
        self.hash_of: dict[int, object] = {}
        self.by_hash: dict[object, list[int]] = {}

    def take(self, count: int) -> list[int]:
        taken = [self.free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            assert self.users[block] == 0, "a block is used twice"
            self.users[block] = 1
            if name := self.hash_of.pop(block, None):
                self.by_hash[name].remove(block)
        return taken

    def touch(self, blocks: list[int]) -> None:
        for block in blocks:
            self.free.pop(block, None)
            self.users[block] += 1

    def give_back(self, blocks: list[int]) -> None:
        for block in blocks:
            self.users[block] -= 1
        freed = [block for block in blocks if self.users[block] == 0]
        self.free.update((block, None) for block in freed)
        for block in reversed([block for block in freed if block not in self.hash_of]):
            self.free.move_to_end(block, last=False)

    def name(self, block: int, name: object) -> None:
        self.hash_of[block] = name
        self.by_hash.setdefault(name, []).append(block)

    def find(self, name: object) -> int | None:
        return next(iter(self.by_hash.get(name, [])), None)


class NaiveEngine:
    """One engine in virtual time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = Pool(settings.kv_blocks)
        self.waiting: list[Asked] = []
        self.running: list[Asked] = []
        self.in_flight: list[list[tuple[Asked, bool, int]]] = []
        self.done: list[Asked] = []
        self.gathering = False
        self.computed_tokens = self.steps = 0

    def serve(self, requests: list[Asked]) -> None:
        """Answer all; each tells afterwards what became of it."""
        coming = [request for request in requests if request.follows < 0]
        now_ps = end_ps = 0
        while len(self.done) < len(requests):
            coming.sort(key=lambda request: (request.arrival_ps, request.number))
            if not self.running and not self.waiting:
                now_ps = max(now_ps, coming[0].arrival_ps)
            while coming and coming[0].arrival_ps <= now_ps:
                self._enqueue(coming.pop(0))
            while len(self.in_flight) > self.settings.lag:
                for ended in self._learn(self.in_flight.pop(0)):
                    coming += self._followers(requests, ended)
            chunks = self._schedule()
            start_ps = max(now_ps, end_ps)
            end_ps = start_ps + self._cost_ps(chunks)
            self._compute(chunks, end_ps)
            now_ps = start_ps if self.settings.lag else end_ps

    def _enqueue(self, request: Asked) -> None:
        request.known = request.prompt
        self.waiting.append(request)
        if self.settings.by_priority:
            self.waiting.sort(key=lambda request: request.rank)

    def _followers(self, requests: list[Asked], ended: Asked) -> list[Asked]:
        followers = [request for request in requests if request.follows == ended.number]
        for follower in followers:
            follower.arrival_ps = ended.last_ps + follower.gap_ps
        return followers

    def _learn(self, computed: list[tuple[Asked, bool, int]]) -> list[Asked]:
        """A step's output is known: a token more for each that was sampled, and the end of some."""
        ended = []
        for request, sampled, preemptions in computed:
            if not sampled:
                continue
            request.known += 1
            if preemptions == request.preemptions:
                request.expected -= 1
                self._name(request, request.computed - request.expected)
            if request.known == request.prompt + request.output:
                self._free(request)
                (self.running if request in self.running else self.waiting).remove(request)
                ended.append(request)
        self.done += ended
        return ended

    def _schedule(self) -> dict[Asked, int]:
        chunks: dict[Asked, int] = {}
        budget = self.settings.max_num_batched_tokens
        preempted = False
        at = 0
        while at < len(self.running):
            request = self.running[at]
            at += 1
            everything = request.known + request.expected
            chunk = min(everything - request.computed, budget)
            if chunk == 0 or (request.expected and everything == request.prompt + request.output):
                continue
            while not self._allocate(request, chunk):
                victim = self._victim()
                at -= self.running.index(victim) < at
                budget += chunks.pop(victim, 0)
                self._preempt(victim)
                preempted = True
                if victim is request:
                    self.gathering = False
                    return chunks
            chunks[request] = chunk
            budget -= chunk
        self.gathering |= not self.running
        while self.waiting and budget > 0 and not preempted and (self.gathering or not self.settings.waves):
            if len(self.running) == self.settings.max_num_seqs or not (chunk := self._admit(budget)):
                break
            chunks[self.running[-1]] = chunk
            budget -= chunk
        self.gathering &= budget == 0
        return chunks

    def _victim(self) -> Asked:
        if self.settings.by_priority:
            return max(self.running, key=lambda request: request.rank)
        return self.running[-1]

    def _preempt(self, victim: Asked) -> None:
        self.running.remove(victim)
        self._free(victim)
        victim.computed = victim.expected = 0
        victim.preemptions += 1
        self.waiting.insert(0, victim)
        if self.settings.by_priority:
            self.waiting.sort(key=lambda request: request.rank)

    def _admit(self, budget: int) -> int:
        """The head of the line runs if its whole prompt finds room; returns its tokens in this step."""
        request, tokens = self.waiting[0], self.settings.block_tokens
        hits: list[int] = []
        while self.settings.prefix_caching and len(hits) < (request.known - 1) // tokens:
            block = self.pool.find(request.hash_of(len(hits), tokens))
            if block is None:
                break
            hits.append(block)
        revived = sum(self.pool.users[block] == 0 for block in hits)
        whole = -(-request.known // tokens) + self.settings.state_blocks
        if whole - len(hits) + revived > len(self.pool.free):
            return 0
        self.pool.touch(hits)
        request.blocks, request.hashed = hits, len(hits)
        request.state = self.pool.take(self.settings.state_blocks)
        request.computed = len(hits) * tokens
        request.target = request.known
        if request.cached < 0:
            request.cached = request.computed
        chunk = min(request.known - request.computed, budget)
        assert self._allocate(request, chunk)
        self.running.append(self.waiting.pop(0))
        return chunk

    def _allocate(self, request: Asked, chunk: int) -> bool:
        lacking = -(-(request.computed + chunk) // self.settings.block_tokens) - len(request.blocks)
        if lacking > len(self.pool.free):
            return False
        request.blocks += self.pool.take(max(lacking, 0))
        self._name(request, min(request.computed + chunk, request.known))
        return True

    def _name(self, request: Asked, tokens: int) -> None:
        full = tokens // self.settings.block_tokens * self.settings.prefix_caching
        for block in range(request.hashed, full):
            self.pool.name(request.blocks[block], request.hash_of(block, self.settings.block_tokens))
        request.hashed = max(request.hashed, full)

    def _free(self, request: Asked) -> None:
        self.pool.give_back(request.state + request.blocks[::-1])
        request.blocks, request.state, request.hashed = [], [], 0

    def _cost_ps(self, chunks: dict[Asked, int]) -> int:
        if not chunks:
            return 0
        costs = self.settings
        prefills = [(one, chunk) for one, chunk in chunks.items() if one.computed < one.target]
        lasts_ps = (
            costs.step_ps
            + costs.token_ps * sum(chunks.values())
            + costs.kv_token_ps * sum(request.computed + chunk for request, chunk in chunks.items())
            + costs.pair_ps * sum(c * request.computed + c * (c + 1) // 2 for request, c in prefills)
            + costs.sequence_ps * len(chunks)
            + costs.prefill_step_ps * bool(prefills)
        )
        return max(lasts_ps, costs.prefill_floor_ps) if prefills else lasts_ps

    def _compute(self, chunks: dict[Asked, int], end_ps: int) -> None:
        step = []
        for request, chunk in chunks.items():
            request.computed += chunk
            sampled = request.computed == request.known + request.expected
            if sampled:
                request.expected += 1
                request.last_ps = end_ps
                request.first_ps = end_ps if request.first_ps < 0 else request.first_ps
            step.append((request, sampled, request.preemptions))
        self.in_flight.append(step)
        self.steps += bool(chunks)
        self.computed_tokens += sum(chunks.values())
