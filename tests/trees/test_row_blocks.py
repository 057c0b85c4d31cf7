"""Tests of how rows are divided into blocks that are routed together."""

import pytest

from debias.trees.routing import FEW_ROWS, row_blocks


@pytest.mark.parametrize("n_rows", [0, 1, 7, 8, 9, 1023, 4099, 100_000, 1_234_567])
@pytest.mark.parametrize(("n_features", "n_trees"), [(1, 1), (20, 1), (50, 100), (2_000, 1), (20, 50_000)])
def test_blocks_are_all_rows_in_even_parts_that_bits_can_be_cut_at(n_rows, n_features, n_trees):
    parts = row_blocks(n_rows, n_features, n_trees)
    assert [row for part in parts for row in (part.start, part.stop)][1:-1:2] == [part.start for part in parts][1:]
    assert sum(part.stop - part.start for part in parts) == n_rows
    assert all(part.start % 8 == 0 for part in parts)
    sizes = [part.stop - part.start for part in parts]
    assert max(sizes, default=0) - min(sizes, default=0) < 16  # a last block of a few rows is routed in another way


@pytest.mark.parametrize("n_rows", [*range(4096, 20_500, 97), 8191, 8192, 8193, 12_295, 100_001])
@pytest.mark.parametrize("n_features", [5, 200, 320, 2_048])
def test_no_block_for_the_sake_of_the_cache_is_too_small_for_bins(n_rows, n_features):
    assert min(part.stop - part.start for part in row_blocks(n_rows, n_features)) >= FEW_ROWS


def test_a_block_stays_in_the_cache_and_within_memory():
    def largest(n_features, n_trees=1):
        return max(part.stop - part.start for part in row_blocks(2**20, n_features, n_trees))

    assert largest(1) <= 2**18
    assert largest(50) * 50 <= 2**21
    assert largest(10_000) * 10_000 <= 2**24
    assert largest(20, 500) * 500 <= 2**23
    assert largest(10**6, 10**6) == 1024  # however wide
