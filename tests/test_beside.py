"""Work beside a block ends with it, however the block ends."""

import threading

import pytest

from kilocard.beside import beside


def test_it_goes_on_while_the_block_does_and_ends_with_it() -> None:
    began, ends = threading.Event(), list[bool]()

    def work(ended: threading.Event) -> None:
        began.set()
        ends.append(ended.wait(30))

    with pytest.raises(KeyError), beside(work, "test"):
        assert began.wait(30)
        assert not ends
        raise KeyError
    assert ends == [True]
    assert "kilocard-test" not in {thread.name for thread in threading.enumerate()}
