"""Rounding: its error, its grid, its bits."""

import math

import pytest
import torch

from kilocard.errors import KilocardError
from kilocard.quality import SCHEMES, Scheme

NORMAL = torch.randn(64, 576, generator=torch.Generator().manual_seed(0))


def error(scheme: Scheme, weights: torch.Tensor = NORMAL) -> float:
    return float(((scheme.rounded(weights) - weights).square().sum() / weights.square().sum()).sqrt())


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_the_expected_error_of_normal_weights_is_the_one_that_is_made(scheme: Scheme) -> None:
    assert scheme.expected_error(576) == pytest.approx(error(scheme), rel=0.05)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_a_group_has_no_more_levels_than_its_bits_allow(scheme: Scheme) -> None:
    group = scheme.rounded(NORMAL)[0, : scheme.group]
    assert len(group.unique()) <= 2**scheme.bits


def test_what_was_rounded_stays_as_it_is() -> None:
    for scheme in SCHEMES:
        once = scheme.rounded(NORMAL)
        assert torch.allclose(scheme.rounded(once), once, atol=1e-5)


def test_a_bit_more_halves_the_error_and_a_smaller_group_lowers_it() -> None:
    assert error(Scheme("5", 5, 64)) / error(Scheme("4", 4, 64)) == pytest.approx(15 / 31, rel=0.02)
    assert error(Scheme("32", 4, 32)) < error(Scheme("64", 4, 64)) < error(Scheme("row", 4))


def test_zeros_and_constants_survive() -> None:
    for weights in (torch.zeros(2, 64), torch.full((2, 64), 0.3)):
        for scheme in SCHEMES:
            assert torch.allclose(scheme.rounded(weights), weights, atol=1e-6)


def test_bits_count_the_scales() -> None:
    assert Scheme("g", 4, 64).bits_per_weight(576) == 4.5
    assert Scheme("row", 8, symmetric=True).bits_per_weight(576) == pytest.approx(8 + 16 / 576)


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(KilocardError, match="9 bits a weight; give 2 to 8"):
        Scheme("x", 9)
    with pytest.raises(KilocardError, match="a group of 0"):
        Scheme("x", 4, 0)
    with pytest.raises(KilocardError, match="576 weights cannot be cut into groups of 128"):
        Scheme("x", 4, 128).rounded(NORMAL)
    assert math.isfinite(Scheme("x", 2, 2).expected_error(64))
