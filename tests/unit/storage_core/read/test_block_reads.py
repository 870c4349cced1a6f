"""Blocks are read a few ahead of the one handed on, and no more of them than fit a bound.

It reaches inside: a reader sees rows, and not how many blocks wait behind them.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from storage_core.engine.key_value import Item, StoreSnapshot
from storage_core.read.block_reads import BlockReads
from tests.log.workbench import Workbench

MIB = 2**20


class CountingStore:
    """A view of a store that counts what is taken from it."""

    def __init__(self, view: StoreSnapshot) -> None:
        self.view = view
        self.taken = 0

    def items(self, *arguments: Any) -> Iterator[Item]:
        for item in self.view.items(*arguments):
            self.taken += 1
            yield item

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)


def blocks_ahead(bench: Workbench) -> list[int]:
    """Scan all; return how many blocks were held back whenever one was handed on."""
    view = bench.shard.snapshots.committed()
    store = CountingStore(view._store)
    reads = BlockReads("stream", view.place, store)
    ahead = [store.taken - at for at, _ in enumerate(reads.each(view.zones(0, 100)), start=1)]
    assert len(ahead) == store.taken
    view.close()
    return ahead


def test_ever_more_small_blocks_are_read_ahead_up_to_eight(bench):
    for number in range(20):
        bench.keep([number])
    assert blocks_ahead(bench) == [0, *(1, 0), *(3, 2, 1, 0), *range(7, -1, -1), *(4, 3, 2, 1, 0)]


@pytest.mark.parametrize(("size", "most"), [(3 * MIB // 2, 2), (5 * MIB, 0)])
def test_large_blocks_are_read_ahead_up_to_four_mebibytes(make_bench, size, most):
    bench = make_bench(block_bytes=1)
    for number in range(12):
        bench.append([number], payload=[bytes(size)])
    bench.commit()
    assert max(blocks_ahead(bench)) == most
