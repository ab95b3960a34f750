"""The bounds of prefill and decode that a datasheet sets, and which resource sets them."""

from kilocard.roofline.bounds import Roofline, batch_at_ridge, decode_step_s, roofline
from kilocard.roofline.collective import collective_s
from kilocard.roofline.peaks import Peaks, peaks
from kilocard.roofline.terms import StepTerms, prefill_flops, step_terms

__all__ = [
    "Peaks", "Roofline", "StepTerms", "batch_at_ridge", "collective_s", "decode_step_s", "peaks",
    "prefill_flops", "roofline", "step_terms",
]  # fmt: skip
