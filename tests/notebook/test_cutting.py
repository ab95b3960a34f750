"""A cut in two: the band that is predicted, and what a box that cannot cut reads instead."""

from pathlib import Path

import pytest

from kilocard.collectives import Measured
from kilocard.notebook import cutting
from kilocard.notebook.cutting import CutPrediction, kept_cut, predicted_cut, tokens_per_s, tpot_ms


def test_the_book_s_record_has_both_degrees() -> None:
    one, two = kept_cut(1), kept_cut(2)
    assert one.stamp.layout == "TP 1" and two.stamp.layout == "TP 2"
    assert set(tpot_ms(one)) == set(tpot_ms(two)) == {1, 8}
    assert tokens_per_s(two)[8] < 2 * tokens_per_s(one)[8]


def test_a_box_that_cannot_cut_reads_the_prediction_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "can_cut", lambda: False)
    told = predicted_cut(kept_cut(1))
    assert set(told) == {1, 8}
    assert all(0 < it.allreduces_ms < it.least_ms < it.most_ms for it in told.values())


def test_the_band_is_half_of_all_to_half_of_the_reading(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Rates:
        def __init__(self, threads: int) -> None:
            self.read_bytes_per_s = 10e9 * threads

    monkeypatch.setenv("KILOCARD_MEASURED", str(tmp_path))
    monkeypatch.setattr(cutting, "can_cut", lambda: True)
    monkeypatch.setattr(cutting, "measure_ceilings", Rates)
    monkeypatch.setattr(cutting, "_allreduces_ms", lambda model, tokens: 2.0)
    run = kept_cut(1)
    monkeypatch.setattr(cutting, "tpot_ms", lambda _: {1: 60.0})
    read_ms = 201_353_728 * 2 / 10e9 * 1e3
    assert predicted_cut(run)[1] == CutPrediction(
        least_ms=32.0, most_ms=pytest.approx(60 - read_ms / 2 + 2), allreduces_ms=2.0,
        read_ms=pytest.approx(read_ms),
    )  # fmt: skip


def test_allreduces_are_two_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Told:
        seconds = (1e-3,)

    asked: list[tuple[int, ...]] = []

    def measured(ranks: int, sizes: tuple[int, ...], budget_s: float) -> Measured:
        asked.append(sizes)
        return Told()  # type: ignore[return-value]

    monkeypatch.setattr(cutting, "measure", measured)
    assert cutting._allreduces_ms("llama-3.1-8b", 4) == pytest.approx(2 * 32 * 1.0)
    assert asked == [(4 * 4096 * 2,)]
