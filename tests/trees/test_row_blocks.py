"""Tests of how rows are divided into blocks that are routed together."""

from itertools import product

from debias.trees.routing import FEW_ROWS, row_blocks


def test_blocks_are_all_rows_in_even_parts_that_bits_can_be_cut_at():
    rows = (0, 1, 7, 8, 9, 1023, 4099, 100_000, 1_234_567)
    for case in product(rows, ((1, 1), (20, 1), (50, 100), (2_000, 1), (20, 50_000))):
        n_rows, (n_features, n_trees) = case
        parts = row_blocks(n_rows, n_features, n_trees)
        assert [part.start for part in parts] == [0, *(part.stop for part in parts)][:-1], case
        assert sum(part.stop - part.start for part in parts) == n_rows, case
        assert all(part.start % 8 == 0 for part in parts), case
        sizes = [part.stop - part.start for part in parts]
        assert max(sizes, default=0) - min(sizes, default=0) < 16, case  # a short last block is routed in another way


def test_no_block_for_the_sake_of_the_cache_is_too_small_for_bins():
    for case in product((*range(4096, 20_500, 97), 8191, 8192, 8193, 12_295, 100_001), (5, 200, 320, 2_048)):
        assert min(part.stop - part.start for part in row_blocks(*case)) >= FEW_ROWS, case


def test_a_block_stays_in_the_cache_and_within_memory():
    def largest(n_features, n_trees=1):
        return max(part.stop - part.start for part in row_blocks(2**20, n_features, n_trees))

    assert largest(1) <= 2**18
    assert largest(50) * 50 <= 2**21
    assert largest(10_000) * 10_000 <= 2**24
    assert largest(20, 500) * 500 <= 2**23
    assert largest(10**6, 10**6) == 1024  # however wide
