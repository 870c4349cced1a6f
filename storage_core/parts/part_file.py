"""The file of a part: how it is written, and what proves it.

Sorted rows in groups of 8,192, or of 16 MiB where these take more, pages of 2,048, each page with a
checksum and in a page index. Whole numbers and times are delta-packed. What has few distinct values
is kept as a dictionary, floats else by the streams of their bytes. Any tool of the field reads it.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import FileProof
from storage_core.parts.part_bytes import put_chunk_table, unread
from storage_core.parts.rows_done import Handled, not_told
from storage_core.parts.same_rows import are_same

GROUP_ROWS: Final = 8192
# What a group's rows take in memory, but where one row alone takes more: a read holds a group.
GROUP_BYTES: Final = 16 * 2**20
_PAGE_ROWS: Final = 2048
# Codec and level. Of floats by the streams of their bytes zstd takes a twentieth more away than
# lz4, and a grouping over them twice the time.
_SMALL: Final = ("zstd", 1)
_FAST: Final = ("lz4", None)
_SPLIT: Final = "BYTE_STREAM_SPLIT"
_SAMPLE_ROWS: Final = 16_384
# Above this share of distinct values a dictionary is larger than what it stands for.
_DISTINCT_MAX: Final = 0.3
# From this share on most values are in one group alone.
_BLOOM_DISTINCT_MIN: Final = 0.5
# A filter has 16 bits for each value, since sizes are powers of two, and one in thousands of groups
# is taken for one that has a value; at 0.05 it has eight, and one group in thirty is.
# NOTE: pyarrow (26) makes it smaller where a group has fewer values.
_BLOOM: Final = {"ndv": GROUP_ROWS, "fpp": 0.01}
_parquet: Any = pq
_compute: Any = pc


def write_part(
    path: Path, rows: pa.Table, order: Sequence[str], handled: Handled = not_told
) -> FileProof:
    """Write sorted rows as a part; durable on return but for the file's name.

    Args:
        path: The file, which is not there yet.
        rows: All of them, sorted.
        order: The columns that they are sorted by.
        handled: Called with how many rows were written, group by group.

    Returns:
        What proves it.
    """
    dictionaries, encodings, blooms = _encodings(rows, order)
    codecs = {
        path_of: _FAST if encodings.get(field.name) == _SPLIT else _SMALL
        for field in rows.schema
        for path_of in _leaves(field)
    }
    by = [(name, "ascending") for name in order]
    with path.open("x+b") as file:
        with _parquet.ParquetWriter(
            file,
            rows.schema,
            compression={name: codec for name, (codec, _) in codecs.items()},
            compression_level={name: level for name, (_, level) in codecs.items() if level},
            use_dictionary=dictionaries,
            column_encoding=encodings,
            write_page_index=True,
            write_page_checksum=True,
            max_rows_per_page=_PAGE_ROWS,
            bloom_filter_options=dict.fromkeys(blooms, _BLOOM) or None,
            sorting_columns=_parquet.SortingColumn.from_ordering(
                rows.schema, by, null_placement="at_start"
            ),
        ) as writer:
            for group in _groups(rows):
                writer.write_table(group)
                handled(group.num_rows)
        proof = put_chunk_table(file, rows.nbytes)
        os.fsync(file.fileno())
    return proof


def _groups(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield rows by groups that take no more memory than a read is meant to."""
    first, count = 0, GROUP_ROWS
    while first < rows.num_rows:
        group: Any = rows.slice(first, count)
        while group.nbytes > GROUP_BYTES and group.num_rows > 1:
            count = group.num_rows // 2
            group = rows.slice(first, count)
        yield group
        first += group.num_rows
        count = min(GROUP_ROWS, 2 * count)


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
            wanted = None if columns is None else list(columns)
            # By groups: batches of so many rows would be of several where these are short.
            for group in range(file.num_row_groups):
                yield from file.read_row_group(group, columns=wanted).to_batches()
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise unread(path, error) from error


def prove_part(path: Path, rows: pa.Table, handled: Handled = not_told) -> None:
    """Compare the rows of a file with those it was made of; `handled` is called as they are.

    Raises:
        CorruptionError: They differ.
    """
    first = 0
    for batch in read_part(path):
        expected: Any = rows.slice(first, batch.num_rows)
        found: Any = pa.Table.from_batches([batch])
        if not are_same(found.cast(expected.schema), expected):
            break
        first += batch.num_rows
        handled(batch.num_rows)
    if first != rows.num_rows:
        message = "a part does not have the rows it was made of; it is not used"
        raise CorruptionError(message, path=path)


def _encodings(rows: pa.Table, order: Sequence[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the columns with dictionaries, the encodings of others, and those with blooms."""
    dictionaries: list[str] = []
    blooms: list[str] = []
    encodings: dict[str, str] = {}
    for field in rows.schema:
        kind = field.type
        if _is_whole(kind):
            encodings[field.name] = "DELTA_BINARY_PACKED"
        elif pa.types.is_floating(kind):
            if _has_few(rows.column(field.name)):
                dictionaries.append(field.name)
            else:
                encodings[field.name] = _SPLIT
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            if _has_few(rows.column(field.name)):
                dictionaries.append(field.name)
            if field.name not in (*order[:1], "payload") and _is_worth_bloom(
                rows.column(field.name)
            ):
                blooms.append(field.name)
    return dictionaries, encodings, blooms


def _leaves(field: Any) -> Iterator[str]:  # noqa: ANN401 - a field
    """Yield the paths by which Parquet knows what is in a column: all that is told of one."""
    kind, name = field.type, field.name
    if pa.types.is_struct(kind):
        inside = [(name, one) for one in kind]
    elif pa.types.is_map(kind):
        inside = [(f"{name}.key_value", one) for one in (kind.key_field, kind.item_field)]
    elif pa.types.is_list(kind):
        inside = [(f"{name}.list", kind.value_field.with_name("element"))]
    else:
        yield name
        return
    for before, one in inside:
        for path in _leaves(one):
            yield f"{before}.{path}"


def _is_whole(kind: pa.DataType) -> bool:
    # Parquet packs those of 32 and 64 bits; shorter ones become such.
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_date(kind)
        or pa.types.is_time(kind)
    )


def _has_few(column: Any) -> bool:  # noqa: ANN401 - a chunked array
    """Tell whether a column has few distinct values, by rows from all over it."""
    sample = _sample(column)
    return bool(_compute.count_distinct(sample).as_py() <= max(1, _DISTINCT_MAX * len(sample)))


def _is_worth_bloom(column: Any) -> bool:  # noqa: ANN401 - a chunked array
    """Tell whether most groups do not have a value that a group in the middle has."""
    sample = _sample(column)
    distinct = _compute.count_distinct(sample).as_py()
    if distinct >= max(2, _BLOOM_DISTINCT_MIN * len(sample)):
        return True
    group = column.slice(len(column) // GROUP_ROWS // 2 * GROUP_ROWS, GROUP_ROWS)
    return bool(distinct > 1 and 2 * _compute.count_distinct(group).as_py() <= distinct)


def _sample(column: Any) -> Any:  # noqa: ANN401 - a chunked array
    step = max(1, len(column) // _SAMPLE_ROWS)
    if step == 1:
        return column
    return column.take(pa.array(range(0, len(column), step), pa.int64()))
