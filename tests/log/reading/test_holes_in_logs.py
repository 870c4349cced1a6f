"""A reader whose store lacks what was in the middle of the write-ahead logs tells of it.

The logs of a writer that died can be damaged so that one ends early and the next goes on: RocksDB's
secondary reads both. What was between is gone from windows, late copies and heads too, so that
no bounded read would miss it.
"""

import pytest

from storage_core import CorruptionError, Environment, StreamReader
from storage_core.testing import ManualClock

_DAY_MS = 86_400_000
# What is asked first of a reader must not matter, nor whether it comes near the hole.
ASKS = {
    "read": lambda reader: reader.read(),
    "read of an id": lambda reader: reader.read(ids=7),
    "read of its day": lambda reader: reader.read(start=20 * _DAY_MS, end=50 * _DAY_MS),
    "scan": lambda reader: list(reader.scan()),
    "latest": lambda reader: reader.latest(),
    "earliest": lambda reader: reader.earliest(),
    "for each": lambda reader: reader.for_each(fn=print),
}


def sizes_of_log(bench, *batches):
    """Keep batches; return the size that the write-ahead log had before and after each."""
    sizes = [bench.write_ahead_log().stat().st_size]
    for batch in batches:
        bench.keep(**batch)
        sizes.append(bench.write_ahead_log().stat().st_size)
    return sizes


def reader_schema(bench):
    return StreamReader.open(bench.root, bench.name, environment=Environment(clock=ManualClock()))


@pytest.fixture
def bench(make_bench):
    """Four batches of which the logs of a dead writer have all but the second."""
    bench = make_bench()
    sizes = sizes_of_log(
        bench,
        {"primary": [1, 2]},
        # Of another day, another id, and one row of it late: no other batch knows of it.
        {"primary": [40 * _DAY_MS, 30 * _DAY_MS], "secondary": [7, 7]},
        {"primary": [80 * _DAY_MS]},
        {"primary": [81 * _DAY_MS]},
    )
    bench.crash()
    bench.drop_from_log(sizes[1], sizes[2])
    return bench


@pytest.mark.parametrize("name", ASKS)
def test_whatever_is_asked_first_tells_of_the_hole(bench, name):
    hole = r"chain of zones is broken.*shard 0.*addresses \[2, 4\)"
    with reader_schema(bench) as reader, pytest.raises(CorruptionError, match=hole):
        ASKS[name](reader)


def test_writer_that_opens_says_what_to_do_about_the_hole(bench):
    hole = r"addresses \[2, 4\)"
    with pytest.raises(CorruptionError, match=hole) as refused:
        bench.open()
    assert "restore the shard's directory from a backup" in str(refused.value)
