"""The golden store of a stream with an origin tells all that it told when it was written.

`write_v1_origin.py` says what is in it. Every test works on a copy.
"""

import pytest

from storage_core import InvalidRequestError, Stream, StreamReader, list_streams
from tests.golden.write_v1 import plain
from tests.golden.write_v1_origin import ORIGIN, SHARD, STREAM, told_by

STORE = "v1-origin"


def test_store_holds_each_state_and_what_only_an_origin_has(expected):
    assert {row["state"] for row in expected["rows"]} == {0, 1, 2}
    assert len(expected["dead_letters"]) == 4
    assert expected["gaps"] == [[1021, 1100]]
    assert min(row["address"] for row in expected["rows"]) == 1000


def test_writer_finds_all_as_it_was_written(stream, expected):
    assert told_by(stream) == expected
    assert stream.verify().is_clean


def test_origin_is_known(stream, root):
    assert stream.origin == ORIGIN
    assert list_streams(root) == [STREAM]


def test_reader_finds_what_was_committed(root, expected):
    adopted = 1
    with StreamReader.open(root, STREAM) as reader:
        tail = list(plain(reader.tail(SHARD, 0, columns=tuple(expected["rows"][0]))))
        assert tail == expected["rows"][:-adopted]
        dead = [[at, raw.hex()] for at, raw in reader.dead_letters(SHARD)]
        assert dead == expected["dead_letters"][:-adopted]
        assert reader.committed() == {SHARD: 1105, 5: 7}


def test_shard_that_was_never_opened_begins_at_its_birth(stream):
    assert stream.committed()[5] == 7
    with pytest.raises(InvalidRequestError, match="lies below 7"):
        stream.append_batch(rows_at(stream, 1), shard=5, addresses=[6])
    assert stream.append_batch(rows_at(stream, 1), shard=5, addresses=[7]).appended == 1


def test_store_goes_on_where_it_stopped(stream, expected):
    report = stream.append_batch(rows_at(stream, 2), shard=SHARD, addresses=[1106, 1108])
    assert (report.appended, report.duplicates) == (1, 1)
    assert stream.commit()[SHARD] == 1109
    assert len(told_by(stream)["rows"]) == len(expected["rows"]) + 1


def rows_at(stream: Stream, count: int):
    """Return the store's first rows as a batch to append."""
    batch = next(stream.tail(SHARD, columns=("primary", "secondary", "payload")))
    return batch.slice(0, count)
