"""Rows as Parquet or Arrow, each column by its own type.

Rows are gathered to row groups of bounded rows and bytes, so memory does not grow with how many
there are.
"""

from typing import Any, Final, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from storage_core import InvalidRequestError

GROUP_ROWS: Final = 2**17
_GROUP_BYTES: Final = 2**26
TypedForm = Literal["parquet", "arrow", "arrow-stream"]
_untyped: Any = pa  # the stubs know no class that both writers share
_parquet: Any = pq  # nor what else can be written to


class Bytes(Protocol):
    """Where bytes go."""

    def write(self, data: bytes) -> int:
        """Take bytes and return how many."""
        ...


class TypedRows:
    """Rows on their way into one Parquet or Arrow file."""

    def __init__(self, form: TypedForm, sink: Bytes, schema: pa.Schema) -> None:
        """Begin with no rows, of this schema."""
        self._schema = schema
        self._drain = _Drain(sink)
        self._writer: Any
        if form == "parquet":
            try:
                self._writer = _parquet.ParquetWriter(
                    self._drain, schema, compression="zstd", store_schema=True
                )
            except pa.ArrowNotImplementedError as error:
                message = f"Parquet has no such type; make it a text, or leave it out: {error}"
                raise InvalidRequestError(message) from error
        else:
            new = _untyped.ipc.new_file if form == "arrow" else _untyped.ipc.new_stream
            self._writer = new(_untyped.PythonFile(self._drain, "w"), schema)
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def batch(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        if self._rows:
            table = _untyped.Table.from_batches(self._held)
            self._held, self._rows, self._bytes = [], 0, 0
            self._write(table.cast(self._schema).combine_chunks())

    def _write(self, table: Any) -> None:  # noqa: ANN401 - a table
        try:
            self._writer.write_table(table)
        except pa.ArrowInvalid as error:
            message = f"a time is out of what the file can hold; leave its column out: {error}"
            raise InvalidRequestError(message) from error

    def end(self) -> None:
        """Write all that is left, and what ends the file."""
        self.flush()
        self._writer.close()

    def drop(self) -> None:
        """Let go of everything; nothing more is written."""
        self._drain.is_open = False
        self._writer.close()


class _Drain:
    """A file as Arrow's writers know it. What comes once it is shut goes nowhere."""

    closed = False

    def __init__(self, sink: Bytes) -> None:
        self._sink = sink
        self._position = 0
        self.is_open = True

    def write(self, data: Any) -> int:  # noqa: ANN401 - bytes, or a buffer
        if self.is_open:
            self._sink.write(bytes(data))
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """What is written to is closed by whoever opened it."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
