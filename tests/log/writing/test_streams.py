"""A stream open for writing: which shards, whose rows, and how it ends."""

import pytest

from storage_core import (
    ClosedError,
    InvalidRequestError,
    ShardLockedError,
    Stream,
)
from tests.log.workbench import rows_of


@pytest.fixture
def wide(make_bench):
    """A workbench with a stream of four shards."""
    return make_bench(shards=4)


# --- routing ----------------------------------------------------------------------------------


def test_row_goes_to_the_shard_of_its_lowest_bits(wide):
    ids = [0, 1, 2, 3, 4, -1, -4, 2**31 - 1, -(2**31)]
    wide.append(range(len(ids)), secondary=ids)
    for primary, secondary in enumerate(ids):
        wide.stream.append(primary, secondary, b"")
    wide.commit()
    rows = rows_of(wide.stream.read())
    assert len(rows) == 2 * len(ids)
    assert {(row["secondary"], row["shard"]) for row in rows} == {(one, one & 3) for one in ids}


@pytest.mark.parametrize("shard", [4, -1, "0", 0.5])
def test_shard_that_is_not_there_is_refused(wide, shard):
    with pytest.raises(InvalidRequestError):
        wide.append([1], shard=shard)
    assert wide.commit() == dict.fromkeys(range(4), 0)


def test_source_without_a_shard_is_refused_where_there_are_several(wide):
    for extra in ({"source": {"next": 5}}, {"attachments": [("default", b"xnote", b"")]}):
        with pytest.raises(InvalidRequestError, match="name it"):
            wide.append([1], **extra)
    assert wide.commit() == dict.fromkeys(range(4), 0)


# --- some shards ------------------------------------------------------------------------------


def test_shards_of_one_stream_can_have_different_writers(wide):
    wide.reopen(shards=[0, 2])
    with Stream.open(wide.root, wide.name, [1, 3]) as other:
        other.append(1, 1, b"")
        wide.append([2], secondary=2)
        assert (other.commit(), wide.commit()) == ({1: 1, 3: 0}, {0: 0, 2: 1})


def test_row_of_a_shard_that_is_not_open_is_refused(wide):
    wide.reopen(shards=[1])
    with pytest.raises(InvalidRequestError, match="shard 2 is not open here; open are"):
        wide.stream.append(1, 2, b"")
    with pytest.raises(InvalidRequestError, match="shard 0 is not open here"):
        wide.append([1, 2], secondary=[1, 4])
    assert wide.commit() == {1: 0}


@pytest.mark.parametrize("secondary", ["a", None, 1.5])
def test_secondary_that_is_no_integer_is_refused_whatever_is_open(wide, secondary):
    wide.reopen(shards=[1])
    with pytest.raises(InvalidRequestError, match="secondary"):
        wide.stream.append(1, secondary, b"")


@pytest.mark.parametrize("shards", [[4], [0, 9], [-1], [], ["0"], [0, "a"], [0.0], [[0]], 5, "0"])
def test_shards_that_are_not_there_cannot_be_opened(wide, shards):
    wide.close()
    with pytest.raises(InvalidRequestError, match="shards"):
        wide.open(shards=shards)
    wide.open()


def test_second_writer_is_refused_and_leaves_nothing_locked(wide):
    wide.reopen(shards=[3])
    with pytest.raises(ShardLockedError, match=r"process \d+ on .*shard 3"):
        Stream.open(wide.root, wide.name)
    Stream.open(wide.root, wide.name, [0, 1, 2]).close()


# --- ends -------------------------------------------------------------------------------------


CALLS = {
    "append": lambda stream: stream.append(1, 1, b""),
    "append_batch": lambda stream: stream.append_batch(None),
    "commit": lambda stream: stream.commit(),
    "transaction": lambda stream: stream.transaction("t", 1),
    "read": lambda stream: stream.read(),
    "scan": lambda stream: list(stream.scan()),
    "tail": lambda stream: list(stream.tail(0)),
    "for_each": lambda stream: stream.for_each(None, None, None, print),
    "latest": lambda stream: stream.latest(),
    "earliest": lambda stream: stream.earliest(None, 0),
    "available": lambda stream: stream.available(None, 0, 1),
    "verify": lambda stream: stream.verify(),
    "stats": lambda stream: stream.stats(),
    "committed": lambda stream: stream.committed(),
    "source": lambda stream: stream.source(0),
    "lost_ranges": lambda stream: stream.lost_ranges(),
    "accept_loss": lambda stream: stream.accept_loss(0, 0, 1),
    "alter": lambda stream: stream.alter(codec="lz4"),
}


def fail_inside(bench) -> None:
    """Leave the block by an exception, with sealed and unsealed records behind."""
    with bench.stream as stream:
        for primary in range(5):
            stream.append(primary, 1, b"")
        raise KeyError


def test_exception_discards_what_was_not_sealed(make_bench):
    bench = make_bench(block_records=2)
    with pytest.raises(KeyError):
        fail_inside(bench)
    bench.open()
    assert bench.primaries() == [0, 1, 2, 3]


@pytest.mark.parametrize("call", CALLS)
def test_closed_stream_refuses_every_call(bench, call):
    bench.close()
    with pytest.raises(ClosedError, match="closed"):
        CALLS[call](bench.stream)


def test_scan_begun_before_the_close_ends_with_an_error_not_short(make_bench):
    bench = make_bench(block_records=1)
    bench.keep(range(100))
    scan = bench.stream.scan()
    next(scan)
    bench.close()
    with pytest.raises(ClosedError):
        list(scan)


def test_transaction_begun_before_the_close_leaves_nothing(bench):
    transaction = bench.stream.transaction("t", 1)
    transaction.append(1, 1, b"")
    bench.close()
    with pytest.raises(ClosedError):
        transaction.__exit__(None, None, None)
    bench.open()
    assert bench.primaries() in ([], [1])
