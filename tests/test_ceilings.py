"""The box's roof is made of positive rates and puts back what it changed."""

import torch

from kilocard.ceilings import measure_ceilings


def test_rates_are_plausible_and_threads_are_put_back():
    before = torch.get_num_threads()
    roof = measure_ceilings(threads=1, tries=1)
    assert torch.get_num_threads() == before
    assert 1e8 < roof.read_bytes_per_s < 1e14
    assert 1e8 < roof.matmul_flops_per_s < 1e16
    assert roof.ridge_flops_per_byte == roof.matmul_flops_per_s / roof.read_bytes_per_s
