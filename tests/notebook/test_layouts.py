"""Layouts in the notebooks: tables, sliders and panels say what the rule says."""

import pytest

from kilocard.layout import choose_layout
from kilocard.notebook import figures
from kilocard.notebook.degrees import a_card_earns, cut_in_two, judged_degrees, published_cuts
from kilocard.notebook.figures.layouts import layout_frame
from kilocard.notebook.layouts import judge, simulated
from kilocard.notebook.panels import layout_panel
from kilocard.parallel import Layout


def test_a_frame_fills_the_engine_s_share_of_the_card() -> None:
    frame = layout_frame(judge("llama-3.1-70b", "h100-sxm", "fp8"), 2)
    assert sum(frame.values) == pytest.approx(90, abs=0.1)
    assert "holds 99 requests" in frame.readout and "tokens/s a card" in frame.readout


@pytest.mark.parametrize(
    ("model", "card", "degree", "said"),
    [
        ("smollm2-135m", "h100-sxm", 2, "TP 2 cannot be: does not divide the 9 attention heads"),
        ("llama-3.1-70b", "rtx-4090", 1, "TP 1 does not fit"),
        ("qwen3.8-27b", "k100-ai", 2, "its speed is unknown"),
    ],
)
def test_a_frame_says_what_cannot_be(model: str, card: str, degree: int, said: str) -> None:
    assert said in layout_frame(judge(model, card), degree).readout


def test_the_table_has_the_taken_layout_first_and_every_reason(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []
    choice = choose_layout(judge("llama-3.1-70b", "h100-sxm", "fp8"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures.tables, "display", lambda html: shown.append(html.data))
        figures.choice_table(choice, title="which", stamp="derived")
    text = shown[0]
    assert text.index("→ TP 2 × DP 4") < text.index("TP 16")
    assert all(str(one.layout) in text for one in choice.rejected)


def test_the_panel_answers_and_says_no() -> None:
    panel = layout_panel()
    widgets = {child.description: child for child in panel.children if hasattr(child, "description")}
    answer = panel.children[-1]
    assert "The rule takes <b>TP 2" in answer.value
    widgets["TP"].value = 16
    assert "TP 16 fits" in answer.value
    widgets["model"].value = "smollm2-135m"
    assert "<b>No:</b>" in answer.value


def test_what_was_simulated_agrees_with_the_formula() -> None:
    judging = judge("llama-3.1-8b", "h100-sxm")
    told, seen = judging.judged(Layout(2), 16).speed, simulated(judging, Layout(2), 16)
    assert told is not None
    assert seen.output_tokens_per_s == pytest.approx(told.output_tokens_per_s, rel=0.1)


def test_a_worse_wire_earns_less_at_every_degree() -> None:
    better = a_card_earns(judge("llama-3.1-8b", "h100-sxm"), (2, 4))
    worse = a_card_earns(judge("llama-3.1-8b", "h100-sxm", link="pcie4-x16"), (2, 4))
    assert all(worse[degree] < better[degree] for degree in (2, 4))


def test_both_verdicts_on_an_8b_in_two() -> None:
    nvlink = cut_in_two(judge("llama-3.1-8b", "h100-sxm"), "NVLink")
    assert nvlink.full is not None and nvlink.few is not None and nvlink.ttft is not None
    assert nvlink.full < 1 < nvlink.few and nvlink.tpot < 1 and nvlink.ttft < 1
    assert all(it.full is not None and 0.5 < it.full < 0.65 and it.tpot < 1 for it in published_cuts())


def test_the_shipped_errors_are_within_the_bars() -> None:
    for name, _, found in judged_degrees():
        if name == "half of the batches":
            assert found["prompt_median"] < 0.10 and found["token_median"] < 0.05
