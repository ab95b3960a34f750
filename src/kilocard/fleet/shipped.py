"""The calibrations that the book ships, made anew from what others published: coefficients, and every
error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.calibrate import PRIOR_SPREAD, SEEN_IN_BATCHES, fit
from kilocard.engine_model.calibration import carried_to_card
from kilocard.engine_model.coefficients import Coefficients
from kilocard.fleet.calibrating import Row, calibrate_card, calibrate_run, errors
from kilocard.fleet.observation import WHOLE_RUN, Observation
from kilocard.fleet.published.batches import Batch, batch_rows, measured_batches, predict_batches
from kilocard.fleet.published.rates import fitted_part, rate_table
from kilocard.fleet.published.requests import RequestRun, request_run

Floats = NDArray[np.float64]

PRIOR = Coefficients(
    compute_efficiency=0.58,
    attention_efficiency=0.25,
    link_efficiency=0.5,
    idle_expert_share=0.35,
    quantized_moe_layer_s=45e-6,
)
"""Where the fits start: prompts and links as Splitwise's batches have them, the rest round figures."""

CARD_SPREAD = {name: 0.3 * width for name, width in PRIOR_SPREAD.items()}
"""One set for all models of a card stays nearer to the prior: six models cannot tell fifteen numbers
apart."""

SHARES = ("weights_efficiency", "compute_efficiency", "attention_efficiency")
LINKS = ("link_efficiency", "allreduce_s", "long_message_share")
HOST = ("sequence_s", "prefill_floor_s")
BATCH_PRIOR = PRIOR.with_(
    link_efficiency=0.3, long_message_share=0.5, allreduce_s=45e-6, sequence_s=280e-6, prefill_floor_s=0.045
)
"""Where the fits of Splitwise's batches start: an engine of 2023, eager, with NCCL's allreduce."""

BATCH_SPREAD = {**PRIOR_SPREAD, **SEEN_IN_BATCHES, "link_efficiency": 0.7}

REPORTED_RATIO = 0.82
"""The A100's share of its bandwidth over the H100's, as reported of vLLM 0.15: unverified."""

ONLY_LINKED = ("link_efficiency", "allreduce_s")
REQUEST_SPREAD = {
    "weights_efficiency": 0.1,
    "kv_efficiency": 0.1,
    "compute_efficiency": 0.3,
    "attention_efficiency": 0.5,
    "step_s": 0.5,
    "sequence_s": 0.5,
    "prefill_step_s": 0.5,
    "link_efficiency": 0.7,
    "allreduce_s": 0.7,
}
BATCH_NOISE = 0.05
REQUEST_NOISE = 0.1
FIRST_HALF = slice(0, 150)
SECOND_HALF = slice(150, 300)


@dataclass(frozen=True, slots=True)
class RateFit:
    """The H100: its coefficients, the errors on what was fitted, on models left out, and from one run to
    the others."""

    coefficients: Coefficients
    seen: list[Row]
    left_out: list[Row]
    from_one_run: list[Row]


def fit_rates(folder: Path, quick: bool = False) -> RateFit:
    """One set for the H100 from 13 runs of vLLM; whole-run errors only. `quick` leaves out the other fits."""
    runs = rate_table(folder)
    parts = [fitted_part(run) for run in runs]
    found = calibrate_card(parts, PRIOR, CARD_SPREAD).coefficients
    seen = _whole(errors(runs, found))
    if quick:
        return RateFit(found, seen, [], [])
    return RateFit(found, seen, _left_out(runs, parts), _from_one(runs, parts, found))


def _left_out(runs: Sequence[Observation], parts: Sequence[Observation]) -> list[Row]:
    rows = []
    for model in dict.fromkeys(run.case.model for run in runs):
        seen = [part for part in parts if part.case.model != model]
        unseen = [run for run in runs if run.case.model == model]
        rows += errors(unseen, calibrate_card(seen, PRIOR, CARD_SPREAD).coefficients)
    return _whole(rows)


def _from_one(runs: Sequence[Observation], parts: Sequence[Observation], card: Coefficients) -> list[Row]:
    """Each run calibrates the model for the other runs of the same model and layout."""
    rows = []
    for number, part in enumerate(parts):
        others = [run for other, run in enumerate(runs) if other != number and _alike(run, part)]
        if others:
            rows += errors(others, calibrate_run([part], card).coefficients)
    return _whole(rows)


def _alike(run: Observation, part: Observation) -> bool:
    layouts = {observation.case.engine.tensor_parallel_size for observation in (run, part)}
    return run.case.model == part.case.model and len(layouts) == 1


def _whole(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.stage == WHOLE_RUN]


@dataclass(frozen=True, slots=True)
class BatchFit:
    """One card under the engine of those batches, and predicted ÷ measured − 1: prompt times, then token
    times."""

    coefficients: Coefficients
    batches: list[Batch]
    errors: Floats


def fit_batches(folder: Path) -> dict[str, BatchFit]:
    """Splitwise's batches: the engine's own times from the H100's, then the A100 with its own shares of its
    rates and links."""
    batches = batch_rows(folder)
    fits: dict[str, BatchFit] = {}
    prior = BATCH_PRIOR
    names: tuple[str, ...] = (*SHARES, *LINKS, *HOST)
    for card in ("h100-sxm", "a100-sxm-80gb"):
        fits[card] = fit_batch_steps([batch for batch in batches if batch.card == card], prior, names)
        prior, names = fits[card].coefficients, (*SHARES, *LINKS)
    return fits


def fit_batch_steps(batches: list[Batch], prior: Coefficients, names: tuple[str, ...]) -> BatchFit:
    """The named coefficients, fitted to single steps."""
    found = fit(
        lambda coefficients: predict_batches(batches, coefficients),
        measured_batches(batches),
        prior,
        spread={name: BATCH_SPREAD[name] for name in names},
        noise=BATCH_NOISE,
    )
    return BatchFit(found.coefficients, batches, found.errors)


def carried_over(measured: Coefficients, fits: dict[str, BatchFit]) -> Coefficients:
    """The A100 under today's engine: the H100's coefficients, its shares of arithmetic moved as the batches
    moved them, those of its bandwidth by REPORTED_RATIO: the batches' engine was another, and the links of
    those two boxes differ as well."""
    new, old = fits["a100-sxm-80gb"].coefficients, fits["h100-sxm"].coefficients
    return measured.with_(
        weights_efficiency=measured.weights_efficiency * REPORTED_RATIO,
        kv_efficiency=measured.kv_efficiency * REPORTED_RATIO,
        compute_efficiency=measured.compute_efficiency * new.compute_efficiency / old.compute_efficiency,
        attention_efficiency=new.attention_efficiency,
    )


@dataclass(frozen=True, slots=True)
class RequestFit:
    """A card's coefficients from the first half of a run's requests; predicted ÷ measured − 1 for all of
    them."""

    coefficients: Coefficients
    run: RequestRun
    ttft_errors: Floats
    e2e_errors: Floats


def fit_requests(folder: Path, card: str, prior: Coefficients) -> RequestFit:
    """Fitted to the first 150 requests: the second half judges it."""
    run = request_run(folder, card)
    names = [
        name for name in REQUEST_SPREAD if name not in ONLY_LINKED or run.case.engine.tensor_parallel_size > 1
    ]

    def first_half(coefficients: Coefficients) -> Floats:
        return np.concatenate([times[FIRST_HALF] for times in run.predict(coefficients)])

    measured = np.concatenate([run.ttft_s[FIRST_HALF], run.decode_s[FIRST_HALF]])
    found = fit(
        first_half,
        measured,
        prior.with_(request_s=0.0),
        spread={name: REQUEST_SPREAD[name] for name in names},
        noise=REQUEST_NOISE,
    ).coefficients
    ttft_s, decode_s = run.predict(found)
    e2e_errors = (ttft_s + decode_s) / (run.ttft_s + run.decode_s) - 1
    if run.case.engine.tensor_parallel_size == 1:
        found = carried_to_card(found, "h100-sxm", card)
    return RequestFit(found.with_(request_s=prior.request_s), run, ttft_s / run.ttft_s - 1, e2e_errors)
