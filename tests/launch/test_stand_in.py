"""Where no vLLM is installed, an emulated engine stands in, and whatever comes of it says so."""

from collections.abc import Iterator

import pytest

from kilocard.errors import KilocardError
from kilocard.launch import Engine, default_spec, process, start
from kilocard.launch.command import Flavour, NoBuildError
from kilocard.launch.stand_in import recorded_box, stand_in_case
from kilocard.load import sweep
from kilocard.notebook.records import engine_stamp
from kilocard.notebook.this_box import card_under, ceilings_under
from kilocard.record import Kind
from kilocard.specs.engine import EngineSpec


def no_build() -> None:
    raise NoBuildError("this Python has no vllm: install it")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "find_build", no_build)
        patch.delenv("KILOCARD_ENGINE_URL", raising=False)
        with pytest.warns(UserWarning, match="EMULATED"):
            played = start(default_spec())
    yield played
    played.stop()


def test_it_says_that_it_is_emulated_and_why(engine: Engine) -> None:
    assert engine.flavour is Flavour.EMULATED
    assert engine.kind is Kind.EMULATED
    assert "EMULATED" in engine.said
    assert "install it" in engine.said
    assert engine_stamp(engine).kind is Kind.EMULATED
    assert engine_stamp(engine).card == recorded_box().id


def test_a_run_of_it_is_stamped_emulated(engine: Engine) -> None:
    run = sweep(
        engine.url,
        engine.model,
        concurrency=(2,),
        requests_per_level=lambda _: 2,
        prompt_tokens=32,
        output_tokens=2,
        stamp=engine.stamp_fields(),
    )
    assert run.stamp.kind is Kind.EMULATED
    assert run.stamp.caption.startswith("emulated")
    assert card_under(run) == recorded_box()


def test_its_roof_is_that_of_the_box_that_is_played(engine: Engine) -> None:
    roof = ceilings_under(engine)
    assert roof.read_bytes_per_s == recorded_box().memory_bandwidth_bytes_per_s
    assert roof.device == recorded_box().name


def test_it_has_the_settings_that_the_spec_names() -> None:
    spec = EngineSpec(max_model_len=1000, max_num_seqs=7, block_size=64, kv_cache_memory_bytes=2**28)
    engine = stand_in_case(spec).engine
    assert (engine.max_model_len, engine.max_num_seqs, engine.block_size) == (1000, 7, 64)
    assert engine.kv_blocks == 2**28 // (64 * 23_040) - 1
    assert engine.async_scheduling is False


def test_it_ends_when_it_is_let_go() -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning, match="EMULATED"):
        patch.setattr(process, "find_build", no_build)
        patch.delenv("KILOCARD_ENGINE_URL", raising=False)
        played = start(default_spec())
    hold = played._hold
    assert hold is not None
    assert hold.exit_code() is None
    played.stop()
    assert hold.exit_code() is not None


def test_who_wants_a_real_one_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "find_build", no_build)
    monkeypatch.delenv("KILOCARD_ENGINE_URL", raising=False)
    with pytest.raises(KilocardError, match="install it"):
        start(default_spec(), stand_in=False)


def test_more_than_one_rank_is_not_played() -> None:
    with pytest.raises(KilocardError, match="TP 2"):
        stand_in_case(EngineSpec(tensor_parallel_size=2))
