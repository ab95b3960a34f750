"""What was seen becomes a judgement; and a tiny model is really judged."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kilocard.errors import KilocardError
from kilocard.quality import Scheme
from kilocard.quality.judge import BASELINE, ORDERS, TEXT, compared, observe
from kilocard.quality.worker import Assignment, Continued, Observed, Subject

RIGHT = [
    json.dumps({"name": order.name, "count": order.count, "item": order.item, "city": order.city})
    for order in ORDERS
]
TOLD = [[0]] * len(ORDERS)
FREE = [[5, 6, 7, 8], [1, 1, 1, 1]]
SEEN = Observed(0.0, [1.0, 2.0, 3.0, 2.0], [1, 2, 3, 4], TOLD + FREE, [*RIGHT, "a", "b"])


def test_the_baseline_is_like_itself() -> None:
    it = compared(BASELINE, 16.0, SEEN, SEEN)
    assert (it.perplexity, it.perplexity_ratio, it.perplexity_ratio_error) == (math.exp(2.0), 1.0, 0.0)
    assert (it.same_choice, it.same_tokens, it.same_answers, it.valid_json, it.right_fields) == (
        1,
        4,
        1,
        1,
        1,
    )


def test_what_differs_is_counted() -> None:
    worse = replace(
        SEEN,
        losses=[1.5, 2.5, 3.5, 2.5],
        choices=[1, 2, 9, 9],
        outputs=[*TOLD, [5, 6, 9, 8], FREE[1]],
        texts=["nothing", RIGHT[1].replace("Paris", "Lima"), *RIGHT[2:], "a", "b"],
    )
    it = compared("worse", 4.5, worse, SEEN)
    assert it.perplexity_ratio == pytest.approx(math.exp(0.5))
    assert it.perplexity_ratio_error == pytest.approx(0.0)
    assert (it.same_choice, it.same_tokens, it.same_answers) == (0.5, 3.0, 0.5)
    assert it.valid_json == pytest.approx(11 / 12)
    assert it.right_fields == pytest.approx(1 - 1.25 / 12)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights with a tokenizer of single bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=raw, pad_token=alphabet[0]).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(alphabet), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def test_a_model_is_judged_in_a_process_of_its_own(tiny: Path) -> None:
    asked = Continued(4, "The cat sat. ", ("The dog ", "A bird in the "))
    plain, rounded = observe(assignment_of(tiny, asked))
    assert plain.weight_error == 0.0
    assert rounded.weight_error > 0.1
    assert len(plain.losses) == len(plain.choices) == 11
    assert plain.losses != rounded.losses
    assert [len(row) for row in plain.outputs] == [4, 4]
    assert len(plain.texts) == 2


def test_prompts_in_one_batch_answer_as_they_would_by_themselves(tiny: Path) -> None:
    shared, tails, alone = "The cat sat. ", ("The dog ", "A bird in the "), ("So", "A long time ago, ")
    subject = Subject(str(tiny))
    together = subject.continue_(Continued(6, shared, tails, alone))
    whole = [*(shared + tail for tail in tails), *alone]
    assert together == [subject.continue_(Continued(6, "x", (), (one,)))[0] for one in whole]


def assignment_of(folder: Path, asked: Continued) -> Assignment:
    return Assignment(str(folder), "A page of text.", 12, asked, (Scheme("INT2", 2, 64),))


def test_a_model_that_cannot_be_loaded_ends_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(KilocardError, match="cannot be judged"):
        observe(assignment_of(tmp_path, Continued(1, "a", ("b",))))


def test_the_text_is_long_enough_and_has_a_source() -> None:
    assert len(TEXT.read_text().split()) > 800
    assert TEXT.name in (TEXT.parent / "SOURCES.md").read_text()


def test_the_caller_keeps_no_torch() -> None:
    code = "import sys, kilocard.notebook.judged; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
