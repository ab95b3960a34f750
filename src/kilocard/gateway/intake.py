"""From a client's message to a call: whose it is, what it asks, and what has to be guessed of it."""

from __future__ import annotations

from secrets import token_hex

from kilocard.gateway.asked import Asked, read_asked, tokens_of, with_field
from kilocard.gateway.call import Call, Desk, Outcome
from kilocard.gateway.doorman import Doorman
from kilocard.gateway.front import Front
from kilocard.gateway.message import PRINTABLE, Message
from kilocard.gateway.placing import Placing
from kilocard.gateway.refusal import RefusalError
from kilocard.routing import lengths, prefixes
from kilocard.routing.replicas import Arrival
from kilocard.specs.cluster import CLASSES, GatewaySpec

CHAT = b"/v1/chat/completions"
COMPLETIONS = frozenset({b"/v1/completions", CHAT})
POSTS = COMPLETIONS | {b"/v1/embeddings"}
SILENT_TOKENS = 16
"""What an engine gives to a completion that does not say how much; a chat gets all there is room for."""
MOST_ANSWERS = 128
RANKS = {name.encode(): rank for rank, name in enumerate(CLASSES)}
MOST_TRACE_BYTES = 256
NO_KEYS = prefixes.keys_of(b"")


class Intake:
    """Numbers the calls of one process. `contexts` are the longest sequences of models, as engines tell."""

    def __init__(self, spec: GatewaySpec, doorman: Doorman, placing: Placing) -> None:
        self.spec, self.contexts = spec, dict[str, int]()
        self._doorman, self._placing = doorman, placing
        self._seen, self._rows = lengths.new_seen(), dict[tuple[str, int], int]()
        self._sequence = 0
        self._prefix = token_hex(6).encode()

    def call_of(self, desk: Desk, front: Front, message: Message, path: bytes) -> Call:
        """The call that a message asks for; RefusalError where it may not be, or makes no sense."""
        tenant = self._doorman.enter(message)
        content = message.content
        asked = read_asked(content)
        model = self._model(asked)
        most = 0
        if path in COMPLETIONS:
            most = self._most_tokens(asked, model, path)
            if path == CHAT and asked.most_tokens is None and model in self.contexts:
                content = with_field(content, "max_tokens", most)
        prompt = asked.content
        keys, ends = _keys(prompt, asked.cache_salt)
        rank, row = self._rank(tenant, message), self._row(tenant, most)
        expected = lengths.guess(self._seen, row, most)
        answers = max(1, min(asked.n or 1, MOST_ANSWERS))
        expected *= answers
        prefix = int(keys[-1]) if len(keys) else -1
        arrival = Arrival(tokens_of(prompt), expected, prefix, rank)
        self._sequence += 1
        call = Call(desk, front, arrival, keys, ends)
        call.answers = answers
        call.sequence, call.tenant, call.rank, call.guess_row = self._sequence, tenant, rank, row
        call.model, call.path, call.content = model, path, content
        call.is_streamed, call.is_completion = bool(asked.stream), path in COMPLETIONS
        call.request_id = message.id_or(b"") or b"%b-%x" % (self._prefix, self._sequence)
        call.traceparent = _traced(message)
        call.most_tokens, call.most_s = most, self.spec.timeouts.longest_s(most)
        return call

    def learn(self, call: Call) -> None:
        """From an answer that has ended by itself: the next guess is better."""
        if call.outcome is Outcome.OK:
            lengths.learn(self._seen, call.guess_row, call.tokens)

    def _model(self, asked: Asked) -> str:
        """The model that is meant; one that is not served is told with those that are."""
        names = self._placing.by_model
        if asked.model in names:
            return asked.model
        if asked.model is None and len(names) == 1:
            return next(iter(names))
        told = f"the model {asked.model!s:.200} is not served here: use {', '.join(names)}"
        raise RefusalError(404, told, "model_not_found")

    def _rank(self, tenant: str, message: Message) -> int:
        """The class that is asked for, or the tenant's best where that is worse."""
        given = message.header(b"x-priority")
        rank = RANKS.get(given.lower()) if given else 0
        if rank is None:
            told = given.decode("latin-1")
            raise RefusalError(400, f"x-priority {told!s:.40} is none of {', '.join(CLASSES)}")
        return max(self._doorman.ceiling(tenant), rank)

    def _row(self, tenant: str, most: int) -> int:
        """Where the answers to such requests are remembered."""
        like = tenant, most.bit_length()
        row = self._rows.get(like)
        if row is None:
            row = self._rows[like] = lengths.row_of(self._seen, tenant, most)
        return row

    def _most_tokens(self, asked: Asked, model: str, path: bytes) -> int:
        """What the client asks for, if that is allowed; what the engine would give, where it does not say."""
        limit, most = self.spec.limits.max_tokens, asked.most_tokens
        if most is None:
            return min(limit, self.contexts.get(model, limit)) if path == CHAT else SILENT_TOKENS
        if not 0 <= most <= limit:
            raise RefusalError(400, f"max_tokens {most} is not from 0 to {limit}: ask for less")
        return most


def _keys(prompt: bytes, salt: str | None) -> tuple[prefixes.Ints, prefixes.Ints]:
    """Of the prompt's beginning; a salt keeps its owner's apart."""
    if len(prompt) < prefixes.FIRST_STEP_BYTES:
        return NO_KEYS
    return prefixes.keys_of(prompt, (salt or "").encode())


def _traced(message: Message) -> bytes:
    """The client's trace goes on, where it is one."""
    given = message.header(b"traceparent")
    if not 0 < len(given) <= MOST_TRACE_BYTES or given.strip(PRINTABLE):
        return b""
    return b"traceparent: %b\r\n" % given
