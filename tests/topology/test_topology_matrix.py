"""What `nvidia-smi topo -m` prints is read as it stands, on all kinds of boxes; no matrix, no answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.topology import (
    TopologyMatrix,
    format_cores,
    parse_cores,
    parse_rocm_topology,
    parse_topology,
)

FIXTURES = Path(__file__).parents[2] / "data" / "published" / "topologies"
LINKS = ("NV1", "NV4", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS")


def box(name: str) -> TopologyMatrix:
    text = (FIXTURES / f"{name}.txt").read_text()
    return parse_rocm_topology(text) if name.startswith("rocm") else parse_topology(text)


@pytest.mark.parametrize(
    ("name", "cards", "nics", "link", "nodes"),
    [
        ("aws-p4d", 8, 0, "NV12", (0, 0, 0, 0, 1, 1, 1, 1)),
        ("container-cpuset", 4, 0, "NV18", (0, 1, 1, 1)),
        ("dgx-a100", 8, 12, "NV12", (3, 3, 1, 1, 7, 7, 5, 5)),
        ("dgx-h100", 8, 12, "NV18", (0, 0, 0, 0, 1, 1, 1, 1)),
        ("eight-a100-in-pairs", 8, 0, "NV12", (0, 0, 0, 0, 1, 1, 1, 1)),
        ("five-pcie-cards", 5, 0, "SYS", (1, 0, 0, 0, 0)),
        ("four-v100", 4, 1, "NV2", (0, 0, 0, 0)),
        ("gb200-in-colour", 4, 6, "NV18", (0, 0, 1, 1)),
        ("pair-and-lone-card", 3, 2, "NV4", (1, 1, 1)),
        ("rocm-eight-xgmi", 8, 0, "XGMI", (0, 0, 0, 0, 1, 1, 1, 1)),
        ("rocm-four-pcie", 4, 0, "SYS", (None,) * 4),
        ("two-3090-nvlink", 2, 0, "NV4", (0, 0)),
        ("two-5090", 2, 0, "PHB", (0, 0)),
    ],
)
def test_a_box_is_read(name: str, cards: int, nics: int, link: str, nodes: tuple[int | None, ...]) -> None:
    matrix = box(name)
    assert matrix.cards == tuple(f"GPU{card}" for card in range(cards))
    assert len(matrix.nics) == nics
    assert matrix.card_links[0][1] == link
    assert matrix.numa_nodes == nodes


def test_cores_are_read_and_an_empty_cell_names_none() -> None:
    assert box("dgx-h100").cores[4] == (*range(56, 112), *range(168, 224))
    assert box("four-v100").cores[0] == (0, 2, 4, 6, 8, 10)
    assert box("pair-and-lone-card").cores == (tuple(range(64, 72)),) * 3
    assert box("two-3090-nvlink").cores[1] == (4, 6, 9, 15, 17)
    assert box("container-cpuset").cores[1:] == (None,) * 3
    assert box("gb200-in-colour").cores[1:3] == (tuple(range(36)), None)


def test_nics_have_the_names_of_the_legend_or_of_the_columns() -> None:
    assert box("gb200-in-colour").nics == tuple(f"mlx5_{nic}" for nic in range(6))
    assert box("dgx-a100").nics[11] == "mlx5_11"
    assert box("dgx-h100").nics[11] == "NIC11"
    assert box("dgx-h100").nic_links[7] == ("SYS",) * 6 + ("NODE",) * 5 + ("PXB",)


def test_spaces_hide_no_empty_cell() -> None:
    """A terminal that makes spaces of tabs leaves nothing where a cell is empty."""
    header = "  GPU0  GPU1  CPU Affinity  NUMA Affinity"
    matrix = parse_topology(f"{header}  GPU NUMA ID\nGPU0 X NV18 44-51,148 0 N/A\nGPU1 NV18 X 1 N/A\n")
    assert (matrix.cores[1], matrix.numa_nodes) == (None, (0, 1))
    matrix = parse_topology(f"{header}\nGPU0 X SYS 1\nGPU1 SYS X 8-15\n")
    assert (matrix.cores, matrix.numa_nodes) == ((None, tuple(range(8, 16))), (1, None))
    matrix = parse_topology("  GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n")
    assert (matrix.cores, matrix.numa_nodes) == ((None, None), (None, None))


def test_old_names_of_links_are_read() -> None:
    matrix = parse_topology("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSOC\t0-7\nGPU1\tSOC\t X \t8-15\n")
    assert matrix.card_links[0][1] == "SOC"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no matrix"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the driver", "NVIDIA-SMI has failed"),
        ("GPU 0: NVIDIA A100\n  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n", "no matrix"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV1\n", "no row for GPU1"),
        ("\tGPU0\tGPU1\nGPU0\tX\tFOO\nGPU1\tFOO\tX\n", "'FOO'"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU1\tPIX\tX\n", "no such box"),
        ("\tGPU0\tGPU1\nGPU0\tNV1\tX\nGPU1\tX\tNV1\n", "no X for the card itself"),
        ("\tGPU0\tGPU1\nGPU0\tX\nGPU1\tNV1\tX\n", "1 links for 2 columns"),
        ("\tGPU0\tGPU0\nGPU0\tX\tX\n", "twice"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU0\tX\tNV1\nGPU1\tNV1\tX\n", "two rows GPU0"),
        ("\tGPU0\tCPU Affinity\nGPU0\tX\t0-99999999\n", "0-99999999"),
        ("\tGPU0\tCPU Affinity\nGPU0\tX\t9-3\n", "9-3"),
    ],
)
def test_what_is_no_matrix_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(KilocardError, match=said) as refused:
        parse_topology(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["", "no such option", "Link Type between two GPUs\n GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI\n"]
)
def test_what_is_no_rocm_table_is_refused(text: str) -> None:
    with pytest.raises(KilocardError):
        parse_rocm_topology(text)


@given(st.text(max_size=300))
def test_no_text_breaks_the_readers(text: str) -> None:
    for parse in (parse_topology, parse_rocm_topology):
        try:
            parse(f"\tGPU0\tCPU Affinity\n{text}")
        except KilocardError:
            continue


@given(st.sampled_from(sorted(path.name for path in FIXTURES.glob("*.txt"))), st.data())
def test_no_torn_box_breaks_the_readers(name: str, data: st.DataObject) -> None:
    text = (FIXTURES / name).read_text()
    start, end = sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
    for parse in (parse_topology, parse_rocm_topology):
        try:
            parse(text[:start] + text[end:])
        except KilocardError:
            continue


@st.composite
def matrices(draw: st.DrawFn) -> TopologyMatrix:
    count = draw(st.integers(1, 9))
    nics = draw(st.integers(0, 4))
    links = [["X"] * count for _ in range(count)]
    for a in range(count):
        for b in range(a):
            links[a][b] = links[b][a] = draw(st.sampled_from(LINKS))
    to_nics = st.lists(st.sampled_from(LINKS[3:]), min_size=nics, max_size=nics)
    cores = st.none() | st.sets(st.integers(0, 300), min_size=1).map(lambda some: tuple(sorted(some)))
    return TopologyMatrix(
        tuple(f"GPU{card}" for card in range(count)),
        tuple(map(tuple, links)),
        tuple(f"mlx5_{nic}" for nic in range(nics)),
        tuple(tuple(draw(to_nics)) for _ in range(count)),
        tuple(draw(cores) for _ in range(count)),
        tuple(draw(st.none() | st.integers(0, 7)) for _ in range(count)),
    )


def printed(matrix: TopologyMatrix, in_colour: bool, with_id: bool) -> str:
    """A matrix as the tool prints it."""
    names = [*matrix.cards, *(f"NIC{nic}" for nic in range(len(matrix.nics)))]
    head = "\t".join(["", *names, "CPU Affinity", "NUMA Affinity", *(["GPU NUMA ID"] if with_id else [])])
    lines = [f"\t\x1b[4m{head[1:]}\x1b[0m" if in_colour else head]
    for card, name in enumerate(matrix.cards):
        cores, node = matrix.cores[card], matrix.numa_nodes[card]
        links = [
            *(" X " if link == "X" else link for link in matrix.card_links[card]),
            *matrix.nic_links[card],
        ]
        last = ["" if cores is None else format_cores(cores), "" if node is None else str(node)]
        lines.append("\t".join([name, *links, *last, *(["", "N/A"] if with_id else [])]))
    for nic in range(len(matrix.nics)):
        lines.append("\t".join([f"NIC{nic}", *(row[nic] for row in matrix.nic_links), " X "]))
    legend = [f"  NIC{nic}: {name}" for nic, name in enumerate(matrix.nics)]
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", "", "NIC Legend:", "", *legend, ""])


@given(matrices(), st.booleans(), st.booleans())
def test_what_is_printed_is_read_back(matrix: TopologyMatrix, in_colour: bool, with_id: bool) -> None:
    assert parse_topology(printed(matrix, in_colour, with_id)) == matrix


@given(st.sets(st.integers(0, 1000)))
def test_cores_are_written_and_read_back(cores: set[int]) -> None:
    assert parse_cores(format_cores(cores)) == tuple(sorted(cores))


def test_cores_are_written_short() -> None:
    assert format_cores((0, 1, 2, 3, 8, 10, 11)) == "0-3,8,10,11"
