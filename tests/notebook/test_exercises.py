"""Exercises: the right answer passes, each usual slip is named, and nothing else is taken for right."""

import re

import pytest

from kilocard.engine_model.calibration import shown_from_one_run
from kilocard.errors import KilocardError
from kilocard.notebook.exercises import EXERCISES, check, named
from kilocard.notebook.exercises import exercise as module
from kilocard.notebook.say import holds


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_right_is_right_and_far_off_is_not(exercise):
    answer = exercise.answer()
    assert answer > 0
    assert exercise.verdict(answer).startswith("Right")
    assert exercise.verdict(answer * 3).startswith("Not yet")
    assert exercise.verdict(answer / 3).startswith("Not yet")
    assert exercise.verdict(-answer).startswith("Not yet")
    assert exercise.verdict(None).startswith("Not answered")


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_each_slip_is_told_as_itself_and_never_passes(exercise):
    for slip, value in exercise.mistakes().items():
        assert slip in exercise.verdict(value), "a slip passes for the answer, or for another slip"


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_solution_ends_in_the_number(exercise):
    answer = exercise.answer()
    words = exercise.solution(answer)
    forms = {f"{answer:.{digits}f}" for digits in range(4)} | {f"{answer:,.0f}", f"{answer:.3g}"}
    assert any(form in words for form in forms), words


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_words_have_no_marks_that_a_page_would_show_as_they_stand(exercise):
    words = [exercise.unit, exercise.solution(exercise.answer()), *exercise.mistakes()]
    assert not re.search(r"[`*_]\b|\b[`*]|\[", " ".join(words)), words


def test_a_cap_by_the_mean_of_an_answer_is_told_from_one_by_its_end():
    said = named("7.1").verdict(235)
    assert "half of each answer" in said and "too large" not in said


def test_the_margin_of_one_run_is_the_one_that_runs_have_shown():
    it = named("10.3")
    words = it.solution(it.answer())
    assert f"{100 * shown_from_one_run()['e2e_s']:.1f} %" in words and "order to 25." in words


def test_check_folds_the_solution_and_escapes_it(monkeypatch):
    pages: list[str] = []
    monkeypatch.setattr(module, "display", lambda thing: pages.append(thing.data))
    check("1.2", 295)
    assert "Right" in pages[0] and "<details><summary>Solution</summary>" in pages[0]


@pytest.mark.parametrize("given", ["forty", "1", [1], True, float("nan"), float("inf")])
def test_what_is_no_number_is_refused_by_name(given):
    with pytest.raises(KilocardError, match="is a number of"):
        check("1.1", given)


def test_a_misspelt_name_gets_the_near_one():
    with pytest.raises(KilocardError, match=r"did you mean '1\.1'"):
        named("1.11")


def test_a_claim_that_does_not_hold_stops_the_chapter():
    holds({"two is two": 2 == 2})
    with pytest.raises(AssertionError, match="measured otherwise here: two is three"):
        holds({"two is two": True, "two is three": 2 == 3})
