"""The catalogue: every row has a source, a reader can add one, and a misspelt name is answered."""

from pathlib import Path

import pytest

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.registry import FACTS_VARIABLE

CARDS = {
    "a100-sxm-80gb", "h100-sxm", "h100-pcie", "h200-sxm", "b200-sxm", "l40s", "l4", "rtx-4090", "mi300x",
    "ascend-910b", "k100-ai",
}  # fmt: skip
MODELS = {
    "smollm2-135m", "qwen3-8b", "qwen3-14b", "qwen3-32b", "qwen3-30b-a3b", "qwen3.5-27b", "qwen3.6-27b",
    "qwen3.8-27b", "llama-3.1-8b", "llama-3.1-70b", "deepseek-v3",
}  # fmt: skip

NEW_CARD = """
cards:
  {name}:
    name: A card of a reader
    memory_gb: 32
    memory_bandwidth_gb_per_s: 1000
    bf16_tflops: {bf16}
    fp8_tflops: 0
    int8_tops: null
    link: pcie4-x16
    source: {{citation: a datasheet, date: "2026", kind: published}}
"""


def test_the_promised_ids_are_there() -> None:
    assert set(facts.cards()) >= CARDS
    assert set(facts.models()) >= MODELS


def test_every_row_names_its_source_date_and_kind() -> None:
    for rows in (facts.cards(), facts.models(), facts.links()):
        for row in rows.values():
            assert row.source.citation and row.source.date and row.source.kind
            if row.source.kind is not facts.FactKind.UNVERIFIED:
                assert row.source.link.startswith("https://")


def test_every_unknown_number_is_listed_as_unverified() -> None:
    for card in facts.cards().values():
        fields = ("memory_gb", "memory_bandwidth_gb_per_s", "bf16_tflops", "fp8_tflops", "int8_tops")
        unknown = {field for field in fields if getattr(card, field) is None}
        assert unknown <= set(card.unverified)


def test_every_card_names_a_link_that_exists() -> None:
    for card in facts.cards().values():
        facts.link(card.link)


@pytest.mark.parametrize(
    ("card", "bf16", "fp8"),
    [("l40s", 362, 733), ("h100-sxm", 989, 1979), ("h100-pcie", 756, 1513), ("b200-sxm", 2250, 4500)],
)
def test_peaks_are_dense(card: str, bf16: float, fp8: float) -> None:
    """The figures that datasheets print with sparsity are twice these."""
    assert (facts.card(card).bf16_tflops, facts.card(card).fp8_tflops) == (bf16, fp8)


def test_links_give_one_way_as_half_of_both() -> None:
    for link in facts.links().values():
        if link.one_way_gb_per_s and link.both_ways_gb_per_s:
            assert link.one_way_gb_per_s * 2 == link.both_ways_gb_per_s


def test_a_misspelt_name_is_answered_by_the_nearest() -> None:
    with pytest.raises(KilocardError, match=r"unknown card 'h100-sxn': did you mean 'h100-sxm'\?"):
        facts.card("h100-sxn")
    with pytest.raises(KilocardError, match=r"did you mean 'qwen3-8b'\?.*config.json"):
        facts.model("qwen-3-8b")


def test_a_model_answers_to_its_hugging_face_name() -> None:
    assert facts.model("Qwen/Qwen3-8B").id == facts.model("QWEN3-8B").id == "qwen3-8b"


def test_a_reader_adds_and_replaces_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = facts.card("l4").bf16_tflops
    (tmp_path / "mine.yaml").write_text(NEW_CARD.format(name="my-card", bf16=200))
    other = tmp_path / "other.yml"
    other.write_text(NEW_CARD.format(name="l4", bf16=7))
    monkeypatch.setenv(FACTS_VARIABLE, f"{tmp_path}:{other}")
    assert facts.card("my-card").bf16_tflops == 200
    assert facts.card("l4").bf16_tflops == 7
    monkeypatch.delenv(FACTS_VARIABLE)
    assert facts.card("l4").bf16_tflops == known


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("cards: [", "it has to be YAML"),
        ("gpus: {}", "'gpus' is not cards, models or links"),
        ("- a list", "is not cards, models or links"),
        (NEW_CARD.format(name="x", bf16="fast"), "bf16_tflops"),
        (NEW_CARD.format(name="x", bf16=-1), "bf16_tflops is -1"),
        (NEW_CARD.format(name="x", bf16=1).replace("link:", "lnik:"), "lnik|link"),
        (NEW_CARD.format(name="x", bf16=1).replace("a datasheet", "''"), "citation"),
        ("models: {m: {name: only}}", "layers"),
        ("cards: {m: 7}", "cards m"),
    ],
)
def test_a_bad_row_is_one_line_that_names_file_and_field(
    content: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(content)
    monkeypatch.setenv(FACTS_VARIABLE, str(file))
    with pytest.raises(KilocardError, match=complaint) as caught:
        facts.cards()
    assert str(file) in str(caught.value)


def test_an_unknown_number_names_its_field_and_the_way_out() -> None:
    with pytest.raises(KilocardError, match=r"memory_bandwidth_gb_per_s of ascend-910b.*KILOCARD_FACTS"):
        _ = facts.card("ascend-910b").memory_bandwidth_bytes_per_s
