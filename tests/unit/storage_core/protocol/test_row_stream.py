"""A stream of rows is whole or an error, wherever its bytes end."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest

from storage_core import LostRangeError, ShardlogError, UnavailableError
from storage_core.protocol import RowStream, encode_rows

_BATCH = pa.record_batch({"a": [1, 2, 3], "b": [b"x", None, b""]})
_ARROW_END = 8


def _bytes_of(batches: Iterator[pa.RecordBatch], **options: Any) -> bytes:
    return b"".join(bytes(piece) for piece in encode_rows(_BATCH.schema, batches, **options))


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_rows_come_back_and_what_is_returned_beside_them(compression: str | None) -> None:
    data = _bytes_of(iter([_BATCH, _BATCH.slice(0, 0), _BATCH]), result=7, compression=compression)
    stream = RowStream(BytesIO(data))
    assert stream.read_all() == pa.Table.from_batches([_BATCH, _BATCH])
    assert (stream.is_whole, stream.result) == (True, 7)


def test_stream_without_rows_is_whole_and_has_its_schema() -> None:
    stream = RowStream(BytesIO(_bytes_of(iter([]), result=None)))
    assert stream.read_all() == _BATCH.schema.empty_table()


def test_stream_has_the_metadata_of_its_own_schema() -> None:
    for metadata in ({b"of": b"one"}, {b"of": b"two"}):
        schema = _BATCH.schema.with_metadata(metadata)
        stream = RowStream(BytesIO(b"".join(map(bytes, encode_rows(schema, ())))))
        assert stream.read_all().schema.metadata == metadata


def test_stream_cut_anywhere_never_looks_whole() -> None:
    data = _bytes_of(iter([_BATCH, _BATCH]), compression=None)
    for size in range(len(data) - _ARROW_END):
        with pytest.raises(UnavailableError, match="ended early"):
            list(RowStream(BytesIO(data[:size])))


def test_stream_that_lacks_or_repeats_a_message_is_refused() -> None:
    once, twice = (_bytes_of(iter([_BATCH] * n)) for n in (1, 2))
    size = len(twice) - len(once)
    begin = _BATCH.schema.serialize().size
    for data in (twice[:begin] + twice[begin + size :], once[: begin + size] + once[begin:]):
        with pytest.raises(UnavailableError, match="ended early"):
            list(RowStream(BytesIO(data)))


def test_error_behind_rows_comes_as_itself() -> None:
    def lost() -> Iterator[pa.RecordBatch]:
        yield _BATCH
        message = "gone"
        raise LostRangeError(message, stream="s", shard=3, start=1, end=2)

    stream = RowStream(BytesIO(_bytes_of(lost())))
    with pytest.raises(LostRangeError, match="shard 3") as caught:
        list(stream)
    assert (caught.value.start, caught.value.end, stream.is_whole) == (1, 2, False)


def test_error_that_is_not_ours_leaves_the_stream_cut() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield _BATCH
        raise ZeroDivisionError

    pieces = encode_rows(_BATCH.schema, broken())
    data = bytes(next(pieces)) + bytes(next(pieces))
    with pytest.raises(ZeroDivisionError):
        next(pieces)
    with pytest.raises(ShardlogError):
        list(RowStream(BytesIO(data)))
