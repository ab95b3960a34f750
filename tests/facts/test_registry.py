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
    "smollm2-135m", "random-qwen3-200m", "qwen3-8b", "qwen3-14b", "qwen3-32b", "qwen3-30b-a3b",
    "qwen3.5-27b", "qwen3.6-27b", "qwen3.8-27b", "llama-3.1-8b", "llama-3.1-70b", "deepseek-v3",
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
    for find in (facts.card, facts.link):
        with pytest.raises(KilocardError, match=r"put a row of your own into a YAML file .*--facts"):
            find("my-laptop")
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


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("memory_gb: -1", "cards x: memory_gb is -1: input should be greater than"),
        ("memory_gb: true", "cards x: memory_gb is True: input should be a valid number"),
        ("memory_bandwidth_gb_per_s: .inf", "memory_bandwidth_gb_per_s is inf"),
        ("memory_bandwidth_gb_per_s: .nan", "memory_bandwidth_gb_per_s is nan"),
        ("fp8_tflops: -.inf", "fp8_tflops is -inf"),
        ("bf16_tflops: '100'", "bf16_tflops is '100'"),
        ("board_power_w: 2000000000", "board_power_w is 2000000000: input should be less than 1000000000"),
        ("measured_bf16_tflops: -5", "measured_bf16_tflops is -5"),
        ("id: l4", "its id inside is 'l4'"),
    ],
)
def test_a_card_s_number_beyond_its_limit_is_refused(
    line: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = line.split(":")[0]
    rows = NEW_CARD.format(name="x", bf16=1).splitlines()
    content = "\n".join([*(row for row in rows if not row.strip().startswith(f"{key}:")), f"    {line}"])
    assert complaint in refusal(content, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("links: {w: {name: w, one_way_gb_per_s: .nan, both_ways_gb_per_s: 1, source: SOURCE}}", "is nan"),
        ("links: {w: {name: w, one_way_gb_per_s: 1, both_ways_gb_per_s: true, source: SOURCE}}", "is True"),
        ("models: {m: {MODEL, moe: {layers: 1, experts: -8}}}", "moe.experts is -8"),
        ("models: {m: {MODEL, moe: {layers: true, experts: 8}}}", "moe.layers is True"),
        ("models: {m: {MODEL, max_context_tokens: -1}}", "max_context_tokens is -1"),
        ("models: {m: {MODEL, published_parameters_b: .inf}}", "published_parameters_b is inf"),
        ("models: {m: {MODEL, tied_embeddings: 1}}", "tied_embeddings is 1"),
    ],
)
def test_links_and_models_have_limits_too(
    row: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = ("layers", "hidden_size", "intermediate_size", "attention_heads", "kv_heads", "head_dim")
    source = "{citation: c, date: d, kind: published}"
    model = ", ".join(["name: m, vocab_size: 8", *(f"{size}: 8" for size in sizes), f"source: {source}"])
    assert complaint in refusal(row.replace("MODEL", model).replace("SOURCE", source), tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (NEW_CARD.format(name="x", bf16=1) + "  x: {}\n", "'x' is there twice in line"),
        (NEW_CARD.format(name="x", bf16=1) + "  X: {}\n", "cards X: its id is there twice"),
        (NEW_CARD.format(name="x", bf16=1) + "    bf16_tflops: 2\n", "'bf16_tflops' is there twice"),
        (NEW_CARD.format(name=4090, bf16=1), "the id 4090 is no text"),
        (NEW_CARD.format(name="y" * 101, bf16=1), "is no name of 1 to 100"),
        ("[" * 100_000, "nested too deeply"),
        ("cards: {x: {date: !!timestamp 2026-13-45}}", "month must be in 1..12"),
        ("cards: {x: !!python/object/apply:os.system [id]}", "could not determine a constructor"),
        ("cards: {? [1] : 2}", "a key is no text but a list or a mapping in line 1"),
    ],
)
def test_yaml_that_is_no_list_of_rows_is_refused(
    content: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complaint in refusal(content, tmp_path, monkeypatch)


def refusal(content: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    file = folder / "bad.yaml"
    file.write_text(content)
    monkeypatch.setenv(FACTS_VARIABLE, str(file))
    with pytest.raises(KilocardError) as caught:
        facts.cards()
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_id_is_found_whatever_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(NEW_CARD.format(name="My-Card", bf16=200).replace('"2026"', "2026-01-02"))
    monkeypatch.setenv(FACTS_VARIABLE, str(file))
    assert facts.card("my-card") is facts.card("MY-CARD") is facts.card("My-Card")
    assert facts.card("My-Card").id == "my-card"
    assert facts.card("My-Card").source.date == "2026-01-02"


def test_no_name_is_nobody_s() -> None:
    with pytest.raises(KilocardError, match="unknown model ''"):
        facts.model("")


@pytest.mark.parametrize("name", ["/dev/zero", "/" + "a" * 300, "a" * 300, "~nosuchuser/rows.yaml"])
def test_a_path_that_holds_no_rows_is_refused_unread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FACTS_VARIABLE, name)
    with pytest.raises(KilocardError, match=name[:20]):
        facts.cards()
