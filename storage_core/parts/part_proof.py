"""Reading a part's file back: its rows are those that it was made of, its digest that of the list.

Rows are the same bit for bit: NaN is itself, and -0.0 is not 0.0.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage_core.errors import CorruptionError
from storage_core.parts.footer import read_error
from storage_core.parts.progress import OnRows, ignore_rows
from storage_core.platform import xxh3
from storage_core.platform.arrow import one_array

_READ_BYTES: Final = 2**20
_INTEGERS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_parquet: Any = pq
_compute: Any = pc


def read_part(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part in its order, each page proven.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptionError: It is damaged.
    """
    try:
        # NOTE: of a file that it opens itself pyarrow (26) does not always tell which error it was.
        with (
            path.open("rb") as opened,
            _parquet.ParquetFile(opened, page_checksum_verification=True) as file,
        ):
            names = None if columns is None else list(columns)
            # By row groups: a batch may not be of several where these are short.
            for group in range(file.num_row_groups):
                yield from file.read_row_group(group, columns=names).to_batches()
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise read_error(path, error) from error


def prove_part(path: Path, rows: pa.Table, on_rows: OnRows = ignore_rows) -> None:
    """Compare the rows of a file with those it was made of; `on_rows` is called as they are.

    Raises:
        CorruptionError: They differ.
    """
    first = 0
    for batch in read_part(path):
        expected: Any = rows.slice(first, batch.num_rows)
        read: Any = pa.Table.from_batches([batch])
        if not are_same(read.cast(expected.schema), expected):
            break
        first += batch.num_rows
        on_rows(batch.num_rows)
    if first != rows.num_rows:
        message = "a part does not have the rows it was made of; it is not used"
        raise CorruptionError(message, path=path)


def digest_of(path: Path) -> bytes:
    """Return the digest of a whole file."""
    with path.open("rb") as file:
        return digest_in(file)


def digest_in(file: BinaryIO) -> bytes:
    """Return the digest of a file from where it stands."""
    digest = xxh3.xxh3_128()
    while data := file.read(_READ_BYTES):
        digest.update(data)
    return digest.digest()


def are_same(table: pa.Table, other: pa.Table) -> bool:
    """Tell whether two tables have the same rows in the same columns."""
    if table.schema.names != other.schema.names or table.num_rows != other.num_rows:
        return False
    pairs = zip(table.columns, other.columns, strict=True)
    return all(_are_same(one_array(a), one_array(b)) for a, b in pairs)


def _are_same(column: Any, other: Any) -> bool:  # noqa: ANN401 - arrays
    kind = column.type
    if kind != other.type or len(column) != len(other):
        return False
    if pa.types.is_floating(kind):
        whole = _INTEGERS[kind.bit_width]
        return bool(column.view(whole).equals(other.view(whole)))
    if not pa.types.is_nested(kind):
        return bool(column.equals(other))
    if not column.is_valid().equals(other.is_valid()):
        return False
    return all(_are_same(a, b) for a, b in zip(_inside(column), _inside(other), strict=True))


def _inside(nested: Any) -> list[Any]:  # noqa: ANN401 - arrays
    """Return the arrays of which a nested one is made, without what lies behind nulls."""
    if pa.types.is_struct(nested.type):
        return list(nested.flatten())
    lists = nested
    if pa.types.is_map(nested.type):
        entry = pa.struct([nested.type.key_field, nested.type.item_field])
        lists = nested.cast(pa.list_(entry))
    return [_compute.list_value_length(lists), _compute.list_flatten(lists)]
