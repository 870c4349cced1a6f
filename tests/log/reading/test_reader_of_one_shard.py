"""One shard of a reader's stream: what answers requests for it, and what of it is still there."""

import pytest

from storage_core import ClosedError, InvalidRequestError, ReadRequest
from tests.log.served import DOORS, opened_by
from tests.log.topics import NAME
from tests.log.workbench import column_of


@pytest.fixture(params=DOORS)
def door(request):
    return request.param


@pytest.fixture
def bench(make_bench):
    """Ten rows in blocks of two, which nobody writes any more."""
    bench = make_bench(block_records=2)
    bench.append(range(10))
    bench.close()
    return bench


def test_shard_answers_requests(bench, door):
    with opened_by(door, bench.root, bench.name) as reader:
        shard = reader.shard(0)
        request = ReadRequest(0, start_address=3, end_address=5, order="replay")
        assert shard.committed() == 10
        assert column_of(shard.scan(request), "primary") == [3, 4]


def test_nothing_is_missing_of_a_whole_shard(bench, door):
    with opened_by(door, bench.root, bench.name) as reader:
        assert (reader.born(0), reader.start(0), reader.missing(0, 0, 10)) == (0, 0, [])


def test_what_lies_below_the_start_and_what_is_lost_is_missing(bench, door):
    bench.start_at(3)
    bench.lose(6, 8)
    with opened_by(door, bench.root, bench.name) as reader:
        assert (reader.born(0), reader.start(0)) == (0, 3)
        assert reader.missing(0, 0, 10) == [(0, 3), (6, 8)]
        assert reader.missing(0, 2, 7) == [(2, 3), (6, 7)]
        assert reader.missing(0, 3, 6) == reader.missing(0, 8, 20) == []


def test_open_reader_sees_what_went_meanwhile(bench, door):
    with opened_by(door, bench.root, bench.name) as reader:
        assert reader.missing(0, 0, 10) == []
        bench.start_at(4)
        bench.open().close()
        assert (reader.start(0), reader.missing(0, 0, 10)) == (4, [(0, 4)])


def test_nothing_is_missing_below_a_shards_birth(filled, door):
    with opened_by(door, filled.root, NAME) as reader:
        assert (reader.born(3), reader.start(3), reader.missing(3, 0, 200)) == (100, 100, [])
        filled.append(3, [104])
        filled.stream.commit()
        assert (reader.born(3), reader.start(3), reader.missing(3, 0, 200)) == (100, 100, [])


CALLS = {
    "shard": lambda reader, shard: reader.shard(shard),
    "born": lambda reader, shard: reader.born(shard),
    "start": lambda reader, shard: reader.start(shard),
    "missing": lambda reader, shard: reader.missing(shard, 0, 1),
}


@pytest.mark.parametrize("call", CALLS)
def test_shard_that_is_not_there_is_refused(bench, call, read_beside):
    reader = read_beside(bench)
    with pytest.raises(InvalidRequestError, match="shard 7 is not open here; open are"):
        CALLS[call](reader, 7)
    reader.close()
    with pytest.raises(ClosedError, match="the reader is closed"):
        CALLS[call](reader, 0)
