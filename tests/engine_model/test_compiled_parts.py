"""How the loop is compiled: what is private to numba stays put, and its parts serve any number of entries."""

import gc

import numba
import numpy as np
import pytest
from numba import types

from kilocard.engine_model.compiled import compiled, compiled_entry
from kilocard.engine_model.parts import in_haste, short_symbol


@compiled
def doubled(number: int) -> int:
    return 2 * number


@compiled
def quadrupled(number: int) -> int:
    return doubled(doubled(number))


def of_whole(number: int) -> int:
    return quadrupled(number) + doubled(1)


def of_real(number: float) -> float:
    return quadrupled(number) + 0.5


def test_parts_serve_entries_of_different_types() -> None:
    whole = compiled_entry(of_whole, types.int64(types.int64))
    real = compiled_entry(of_real, types.float64(types.float64))
    assert (whole(10), real(0.25), whole(-1)) == (42, 1.5, -2)


def test_a_constant_makes_no_code_of_its_own() -> None:
    compiled_entry(of_whole, types.int64(types.int64))
    assert len({str(types.unliteral(kind)) for (kind,) in doubled.signatures}) == len(doubled.signatures)


def test_a_symbol_tells_types_apart_in_few_characters() -> None:
    row = numba.from_dtype(np.dtype([(f"field_{number}", np.int64) for number in range(60)]))
    tables = types.UniTuple(types.Array(row, 1, "C"), 5)
    symbols = {short_symbol("plan", (kind,), uid=1) for kind in (tables, row, types.int64, types.boolean)}
    assert len(symbols) == 4
    assert max(map(len, symbols)) < 80


def test_haste_is_over_with_the_block_whatever_happens() -> None:
    asked = types.BaseFunction.get_call_type
    with pytest.raises(ZeroDivisionError), in_haste():
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()
    assert types.BaseFunction.get_call_type is asked
