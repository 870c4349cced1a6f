"""Rows as an Arrow stream that says itself whether it is whole.

    schema · batches … · an empty batch whose custom metadata ends the stream · Arrow's own end

The metadata of the last batch is one of

    shardlog.end      {"rows": n, "batches": n, "result": …}: these were all; counts are compared
    shardlog.error    an error document: what came before is to be forgotten

A stream without either was cut, wherever that was: Arrow's readers take the end of the bytes for
the end of the stream, this one does not. `result` is what a call returns beside rows.

Messages of one stream stand alone, since no column is a dictionary: a batch is encoded by itself,
and a server holds one at a time.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar

import pyarrow as pa

from storage_core.errors import InvalidRequestError, ShardlogError, UnavailableError
from storage_core.protocol.error_documents import decode_error, encode_error

_END: Final = b"shardlog.end"
_ERROR: Final = b"shardlog.error"
# Arrow's own: a continuation mark and no length.
_ARROW_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_KEPT_BYTES_MAX: Final = 128


Compression = Literal["lz4", "zstd"]
T = TypeVar("T")


def encode_rows(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    result: object = None,
    compression: Compression | None = None,
) -> Generator[pa.Buffer | bytes, None, ShardlogError | None]:
    """Yield the bytes of a stream, a message at a time; return the error that ended it, if any.

    Args:
        schema: The schema of all batches.
        batches: The rows. An error of ours that comes out of it ends the stream as one; another
            is passed on, and leaves the stream cut.
        result: What is returned beside rows; a callable is asked behind the last batch.
        compression: Of the buffers: lz4, zstd or None.
    """
    encoder = _Encoder(schema, compression)
    yield encoder.head
    rows = count = 0
    try:
        for batch in batches:
            if batch.num_rows:
                yield encoder.message(batch)
                rows, count = rows + batch.num_rows, count + 1
        value = result() if callable(result) else result
    except ShardlogError as error:
        yield encoder.last(_ERROR, encode_error(error))
        yield _ARROW_END
        return error
    yield encoder.last(_END, {"rows": rows, "batches": count, "result": value})
    yield _ARROW_END
    return None


class _Encoder:
    """Batches of one schema as messages."""

    def __init__(self, schema: pa.Schema, compression: Compression | None) -> None:
        self._schema = schema
        self._compression = compression
        self.head = schema.serialize()

    def message(self, batch: pa.RecordBatch) -> pa.Buffer:
        if self._compression is None:
            return batch.serialize()
        return _written(self._schema, self._compression, batch, None)

    def last(self, key: bytes, document: dict[str, Any]) -> bytes:
        data = json.dumps(document, separators=(",", ":")).encode()
        last = _last_kept if len(data) <= _KEPT_BYTES_MAX else _last
        return last(self._schema, self._compression, key, data)


def _written(
    schema: pa.Schema,
    compression: Compression | None,
    batch: pa.RecordBatch,
    metadata: dict[bytes, bytes] | None,
) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(batch, custom_metadata=metadata)
    written = sink.getvalue()
    head = schema.serialize().size
    return written.slice(head, written.size - head - len(_ARROW_END))


def _last(schema: pa.Schema, compression: Compression | None, key: bytes, data: bytes) -> bytes:
    no_rows = pa.RecordBatch.from_pylist([], schema=schema)
    return _written(schema, compression, no_rows, {key: data}).to_pybytes()


# Of a small answer, making its end is much of the work, and many have the same: so many rows.
_last_kept: Final = lru_cache(maxsize=256)(_last)


class RowStream:
    """The batches of a stream, as its bytes come. An iterator, of one thread."""

    def __init__(
        self,
        source: Any,  # noqa: ANN401 - as Arrow
        server: str = "the server",
        *,
        is_received: bool = False,
    ) -> None:
        """Read the schema.

        Args:
            source: The bytes: an answer of HTTP, or a file.
            server: Who sends them, for messages.
            is_received: Whether all bytes that were sent are there for certain, so that a stream
                that ends early was sent so, and is an `InvalidRequestError`.

        Raises:
            UnavailableError: The stream was cut before its schema ended.
        """
        self._server = server
        self._is_received = is_received
        self._rows = self._batches = 0
        self._is_whole = False
        self._result: object = None
        try:
            self._reader = pa.ipc.open_stream(source)
        except pa.ArrowInvalid as error:
            raise self._cut() from error
        except OSError as error:
            if _is_of_arrow(error):
                raise self._cut() from error
            raise

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._reader.schema

    @property
    def is_whole(self) -> bool:
        """Whether the stream has ended, and nothing of it is missing."""
        return self._is_whole

    @property
    def result(self) -> Any:  # noqa: ANN401 - JSON
        """What the call returned beside rows; there once the stream is whole."""
        return self._result

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Return itself."""
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch.

        Raises:
            ShardlogError: The error that the server met, by its type.
            UnavailableError: The stream was cut, or is not what the server has sent.
        """
        if self._is_whole:
            raise StopIteration
        message = self._read_next()
        if message is None:
            raise self._cut()
        batch, metadata = message
        if metadata is None:
            self._rows += batch.num_rows
            self._batches += 1
            return batch
        self._end(metadata)
        raise StopIteration

    def _read_next(self) -> tuple[pa.RecordBatch, pa.KeyValueMetadata | None] | None:
        """Return the next message; None at Arrow's own end, and where the bytes end."""
        try:
            return self._reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return None
        except pa.ArrowInvalid as error:
            raise self._cut() from error
        except OSError as error:
            if _is_of_arrow(error):
                raise self._cut() from error
            raise

    def read_all(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def _end(self, metadata: pa.KeyValueMetadata) -> None:
        fields = dict(metadata.items())
        if _ERROR in fields:
            raise _decoded(fields[_ERROR], decode_error) or self._cut()
        end = _decoded(fields.get(_END, b""), _End.decode)
        if end is None or (end.rows, end.batches) != (self._rows, self._batches):
            raise self._cut()
        # Arrow's own end is taken, too: a connection with bytes left would not be kept.
        if self._read_next() is not None:
            raise self._cut()
        self._result = end.result
        self._is_whole = True

    def _cut(self) -> ShardlogError:
        if self._is_received:
            message = (
                f"what {self._server} has sent is no whole Arrow stream: it ended early, after "
                f"{self._rows} rows; none of it counts"
            )
            return InvalidRequestError(message)
        message = (
            f"the answer of {self._server} ended early, after {self._rows} rows; none of it counts"
        )
        return UnavailableError(message)


def _is_of_arrow(error: OSError) -> bool:
    """Tell whether Arrow says so of bytes; what `read` raises has a number."""
    # NOTE: pyarrow 26 tells so of bytes that are missing, or no message.
    return error.errno is None and type(error) is OSError


@dataclass(frozen=True, slots=True)
class _End:
    rows: int
    batches: int
    result: object

    @classmethod
    def decode(cls, document: Any) -> "_End":  # noqa: ANN401 - JSON
        return cls(document["rows"], document["batches"], document["result"])


def _decoded(data: bytes, decode: Callable[[object], T | None]) -> T | None:
    """Return what some JSON says, or None where it says nothing that is known."""
    try:
        return decode(json.loads(data))
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
