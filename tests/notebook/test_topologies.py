"""Boxes of others in the book: read, drawn, and each with its source."""

import re

import pytest

from kilocard.errors import KilocardError
from kilocard.notebook import figures, style
from kilocard.notebook.records import PUBLISHED
from kilocard.notebook.topologies import FOLDER, host_beside, published_pinning, topology_of, topology_text
from kilocard.topology import TopologyMatrix, advise

NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


@pytest.fixture
def shown(monkeypatch):
    pages: list[str] = []
    monkeypatch.setattr(style, "display", lambda thing: pages.append(thing.data))
    return pages


@pytest.mark.parametrize("name", NAMES)
def test_each_is_read_advised_drawn_and_has_its_source(name, shown):
    matrix = topology_of(name)
    assert advise(matrix, host_beside(matrix))
    figures.topology_figure({name: matrix}, title="t", stamp="published")
    assert f"{len(matrix.cards)} cards" in shown[0]
    assert f"`{name}.txt`" in (FOLDER / "SOURCES.md").read_text()


def test_every_class_is_named_in_its_cell_and_counted_in_words(shown):
    figures.topology_figure({"it": topology_of("eight-a100-in-pairs")}, title="t", stamp="published")
    assert "4 pairs by NV12 (NVLink" in shown[0] and "16 pairs by SYS (through the wire" in shown[0]
    assert len(re.findall(r">NV12<|>NV12</text>", shown[0])) == 8
    assert "node 1" in shown[0]


def test_a_link_that_is_not_known_is_drawn_as_such(shown):
    links = (("X", "N/A"), ("N/A", "X"))
    unknown = TopologyMatrix(("GPU0", "GPU1"), links, (), ((), ()), (None, None), (None, None))
    figures.topology_figure({"it": unknown}, title="t", stamp="published")
    assert "1 pairs by N/A (unknown)" in shown[0] and "node" not in shown[0]


def test_the_host_beside_cards_has_the_cores_that_they_name():
    host = host_beside(topology_of("dgx-h100"))
    assert len(host.cores) == 224 and [node.number for node in host.nodes] == [0, 1]
    assert host_beside(topology_of("rocm-four-pcie")).cores == (0,)


def test_a_name_that_is_none_gets_the_near_one():
    with pytest.raises(KilocardError, match="did you mean 'dgx-h100'"):
        topology_text("dgx-h10")


def test_a_published_gain_is_what_its_columns_say():
    table = published_pinning()
    for row in table.dropna(subset=["unpinned"]).itertuples():
        faster = row.unpinned / row.pinned if "latency" in row.metric else row.pinned / row.unpinned
        assert 100 * (faster - 1) == pytest.approx(row.gain_percent, abs=0.5), row


def test_every_published_file_is_named_among_the_sources():
    named = (PUBLISHED / "SOURCES.md").read_text()
    assert "`pinning.csv`" in named and "`topologies/`" in named
    assert all(re.search(r"#\d+", row.source) for row in published_pinning().itertuples())
