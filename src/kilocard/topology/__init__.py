"""How a box is wired: its cards' links, its NUMA nodes, its NICs, and what to do about it."""

from kilocard.topology.advice import advise, pinning_of
from kilocard.topology.cores import format_cores, parse_cores
from kilocard.topology.finding import Finding
from kilocard.topology.host import Host, read_host
from kilocard.topology.islands import groups_within, islands, largest_tp
from kilocard.topology.matrix import TopologyMatrix, parse_topology
from kilocard.topology.nics import Nic
from kilocard.topology.numa import NumaNode
from kilocard.topology.pinning import omp_bind, pin_ranks
from kilocard.topology.reading import read_matrix
from kilocard.topology.rocm import parse_rocm_topology

__all__ = [
    "Finding",
    "Host",
    "Nic",
    "NumaNode",
    "TopologyMatrix",
    "advise",
    "format_cores",
    "groups_within",
    "islands",
    "largest_tp",
    "omp_bind",
    "parse_cores",
    "parse_rocm_topology",
    "parse_topology",
    "pin_ranks",
    "pinning_of",
    "read_host",
    "read_matrix",
]
