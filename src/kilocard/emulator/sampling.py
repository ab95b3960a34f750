"""How the next token is to be chosen: read and checked as vLLM does, in its words, though here no token is.

What bears on the length of an answer is heeded: `stop`, `min_tokens` and `ignore_eos`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo

from kilocard.emulator.errors import bad_request

INT64 = 2**63
MOST_STOPS = 4
MOST_LOGPROBS = 20
MOST_ANSWERS = 16_384
ALL = -1
"""Log-probabilities of the whole vocabulary."""


def _log_probs(value: Any, info: ValidationInfo) -> Any:
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise bad_request(f"`{info.field_name}` must be an integer.", info.field_name, value)
    if value < 0 and value != ALL:
        raise bad_request(f"`{info.field_name}` must be a positive value or -1.", info.field_name, value)
    return value


LogProbs = Annotated[int | None, BeforeValidator(_log_probs)]


class Sampling(BaseModel):
    """What both endpoints take."""

    n: int | None = 1
    seed: Annotated[int, Field(ge=-INT64, le=INT64 - 1)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: str | Annotated[list[str], Field(max_length=MOST_STOPS)] | None = None
    include_stop_str_in_output: bool = False
    stop_token_ids: list[int] | None = None
    bad_words: list[str] = []
    logit_bias: dict[str, float] | None = None
    allowed_token_ids: list[int] | None = None
    prompt_logprobs: LogProbs = None

    @property
    def stops(self) -> list[str]:
        """The strings that end the answer."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    def check(self, most_tokens: int, logprobs: int | None) -> None:
        """Refuse what vLLM refuses of an answer of up to `most_tokens`."""
        _check_count(self.n)
        _check_penalties(self)
        _check_choice(self)
        if self.min_tokens < 0:
            raise bad_request(f"min_tokens must be greater than or equal to 0, got {self.min_tokens}.")
        if self.min_tokens > most_tokens:
            raise bad_request(
                f"min_tokens must be less than or equal to max_tokens={most_tokens}, got {self.min_tokens}."
            )
        _check_words(self)
        _check_log_probs("logprobs", "sample", logprobs)
        _check_log_probs("prompt_logprobs", "prompt", self.prompt_logprobs)


def _check_count(n: int | None) -> None:
    if n in (None, 1):
        return
    if n < 1:
        raise bad_request(f"n must be at least 1, got {n}.")
    if n > MOST_ANSWERS:
        raise bad_request(f"n must be at most {MOST_ANSWERS}, got {n}.")
    raise bad_request(f"the emulated engine gives one answer a request (n=1), not {n}", "n")


def _check_penalties(asked: Sampling) -> None:
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(asked, name)
        if value is not None and not -2 <= value <= 2:
            raise bad_request(f"{name} must be in [-2, 2], got {value}.")
    value = asked.repetition_penalty
    if value is not None and not abs(value) < float("inf"):
        raise bad_request(f"repetition_penalty must be a finite number, got {value}.")
    if value is not None and value <= 0:
        raise bad_request(f"repetition_penalty must be greater than zero, got {value}.")


def _check_choice(asked: Sampling) -> None:
    value = asked.temperature
    if value is not None and not 0 <= value <= 2:
        finite = "be in [0, 2]" if 2 < value < float("inf") else "be a finite number"
        must = "be non-negative" if float("-inf") < value < 0 else finite
        raise bad_request(f"temperature must {must}, got {value}.", "temperature", value)
    if asked.top_p is not None and not 0 < asked.top_p <= 1:
        raise bad_request(f"top_p must be in (0, 1], got {asked.top_p}.", "top_p", asked.top_p)
    if asked.top_k is not None and asked.top_k < -1:
        raise bad_request(f"top_k must be 0 (disable), or at least 1, got {asked.top_k}.")
    if asked.min_p is not None and not 0 <= asked.min_p <= 1:
        raise bad_request(f"min_p must be in [0, 1], got {asked.min_p}.")


def _check_words(asked: Sampling) -> None:
    if any(not stop for stop in asked.stops):
        raise bad_request("stop cannot contain an empty string.")
    if any(not word for word in asked.bad_words):
        raise bad_request(f"bad_words cannot contain an empty string. Got bad_words={asked.bad_words}")
    if asked.allowed_token_ids == []:
        raise bad_request("allowed_token_ids is not None and empty!", "allowed_token_ids", [])
    if wrong := [token for token in asked.logit_bias or {} if not _is_whole(token)]:
        raise bad_request(
            f"logit_bias contains key(s) that cannot be converted to integer token IDs: {wrong!r}",
            "logit_bias",
            wrong,
        )


def _is_whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _check_log_probs(name: str, of: str, asked: int | None) -> None:
    if asked is not None and not 0 <= asked <= MOST_LOGPROBS:
        count = "the whole vocabulary" if asked == ALL else asked
        raise bad_request(
            f"Requested {of} logprobs of {count}, which is greater than max allowed: {MOST_LOGPROBS}",
            name,
            count,
        )
