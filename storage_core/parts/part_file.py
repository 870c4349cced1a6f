"""Writes the file of a part: Parquet that any tool reads, with a chunk table before its footer.

Sorted rows in row groups of 8,192, or of 16 MiB where these take more, pages of 2,048, each page
with a checksum and in a page index. Integers and times are delta-packed. A column with few distinct
values has a dictionary; other floats are split into streams of bytes.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage_core.format.chunk_table import (
    BOUNDED,
    Blocks,
    ChunkTable,
    Int64s,
    encode_chunk_table,
    with_check,
)
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.part_entry import FileProof
from storage_core.parts.part_proof import digest_in
from storage_core.parts.progress import OnRows, ignore_rows
from storage_core.platform import xxh3

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
_SCHEMA: Final = "schema"
_BLOCK_BYTES: Final = 2**16
# Behind a footer of Parquet: how many bytes it has, and four that tell the format.
_BEHIND_FOOTER: Final = 8
_parquet: Any = pq
_untyped: Any = pa
_compute: Any = pc


def write_part(
    path: Path,
    rows: pa.Table,
    order: Sequence[str],
    on_rows: OnRows = ignore_rows,
    *,
    has_split_floats: bool = True,
) -> FileProof:
    """Write sorted rows as a part; durable on return but for the file's name.

    Args:
        path: The file, which is not there yet.
        rows: All of them, sorted.
        order: The columns that they are sorted by.
        on_rows: Called with how many rows were written, row group by row group.
        has_split_floats: Whether floats may be split into streams of bytes, as for `PartWriter`.

    Returns:
        What proves it.
    """
    with PartWriter(path, rows, order, has_split_floats=has_split_floats) as part:
        part.write(rows, on_rows)
        return part.finish()


class PartWriter:
    """Writes a part whose rows are not all in memory at once. One thread."""

    def __init__(
        self, path: Path, sample: pa.Table, order: Sequence[str], *, has_split_floats: bool = True
    ) -> None:
        """Create a file.

        Args:
            path: The file, which is not there yet.
            sample: Rows from all over the part, by which encodings are chosen, with its schema.
            order: The columns that rows are sorted by.
            has_split_floats: Whether floats may be split into streams of bytes, which take less,
                and which not every reader of Parquet knows.
        """
        schema = sample.schema
        dictionaries, encodings, blooms = _encodings(sample, order)
        if not has_split_floats:
            encodings = {name: kind for name, kind in encodings.items() if kind != _SPLIT}
        codecs = {
            path_of: _FAST if encodings.get(field.name) == _SPLIT else _SMALL
            for field in schema
            for path_of in _leaves(field)
        }
        by = [(name, "ascending") for name in order]
        self._decoded_bytes = 0
        self._file: Any = path.open("x+b")
        try:
            self._writer = _parquet.ParquetWriter(
                self._file,
                schema,
                compression={name: codec for name, (codec, _) in codecs.items()},
                compression_level={name: level for name, (_, level) in codecs.items() if level},
                use_dictionary=dictionaries,
                column_encoding=encodings,
                write_page_index=True,
                write_page_checksum=True,
                max_rows_per_page=_PAGE_ROWS,
                bloom_filter_options=dict.fromkeys(blooms, _BLOOM) or None,
                sorting_columns=_parquet.SortingColumn.from_ordering(
                    schema, by, null_placement="at_start"
                ),
            )
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with self._file:
            self._writer.close()

    def write(self, rows: pa.Table, on_rows: OnRows = ignore_rows) -> None:
        """Write the next rows in row groups; `on_rows` is called with the rows of each."""
        self._decoded_bytes += rows.nbytes
        for group in _groups(rows):
            self._writer.write_table(group)
            on_rows(group.num_rows)

    def finish(self) -> FileProof:
        """Write the end of the file, and return what proves it; durable but for its name."""
        self._writer.close()
        proof = _append_chunk_table(self._file, self._decoded_bytes)
        os.fsync(self._file.fileno())
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
    """Yield the paths by which Parquet knows the leaf columns of a column."""
    kind, name = field.type, field.name
    if pa.types.is_struct(kind):
        inside = [(name, child) for child in kind]
    elif pa.types.is_map(kind):
        inside = [(f"{name}.key_value", child) for child in (kind.key_field, kind.item_field)]
    elif pa.types.is_list(kind):
        inside = [(f"{name}.list", kind.value_field.with_name("element"))]
    else:
        yield name
        return
    for before, child in inside:
        for path in _leaves(child):
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


def _append_chunk_table(file: BinaryIO, decoded_bytes: int) -> FileProof:
    """Put the chunk table into a file of Parquet, and return what proves the file.

    Args:
        file: Whole, open for reading and writing.
        decoded_bytes: What its rows take in memory.
    """
    size = file.seek(-_BEHIND_FOOTER, os.SEEK_END) + _BEHIND_FOOTER
    parquet_bytes = int.from_bytes(file.read(4), "little") + _BEHIND_FOOTER
    file.seek(size - parquet_bytes)
    parquet_footer = file.read()
    metadata = _parquet.read_metadata(_untyped.BufferReader(parquet_footer))
    table = _table_of(file, size - parquet_bytes, metadata, decoded_bytes)
    footer = with_check(encode_chunk_table(table) + parquet_footer)
    file.seek(size - parquet_bytes)
    file.write(footer)
    file.flush()
    file.seek(0)
    size += len(footer) - parquet_bytes
    return FileProof(size, digest_in(file), len(footer), xxh3.xxh3_128_digest(footer))


def _table_of(file: BinaryIO, end: int, metadata: Any, decoded_bytes: int) -> ChunkTable:  # noqa: ANN401 - the library's
    """Return the table of a file whose footer begins at an end."""
    offsets, sizes = map(np.array, zip(*_places(metadata), strict=True))
    digests = []
    for offset, size in zip(offsets.tolist(), sizes.tolist(), strict=True):
        file.seek(offset)
        digests.append(xxh3.xxh3_64_intdigest(file.read(size)))
    assert (offsets[1:] >= offsets[:-1] + sizes[:-1]).all()
    bounds = {name: _bounds(metadata, name) for name in BOUNDED}
    return ChunkTable(
        metadata.num_row_groups,
        *(offsets, sizes, np.array(digests, np.uint64)),
        bounds,
        _schemas_of(file),
        decoded_bytes,
        _blocks_outside(file, offsets, sizes, end),
    )


def _blocks_outside(file: BinaryIO, offsets: Int64s, sizes: Int64s, end: int) -> Blocks:
    """Return the bytes before an end that are in no column chunk, in blocks."""
    begins = np.append(0, offsets + sizes)
    ends = np.append(offsets, end)
    places = [
        (place, min(_BLOCK_BYTES, int(stop) - place))
        for begin, stop in zip(begins, ends, strict=True)
        for place in range(int(begin), int(stop), _BLOCK_BYTES)
    ]
    digests = []
    for offset, size in places:
        file.seek(offset)
        digests.append(xxh3.xxh3_64_intdigest(file.read(size)))
    begun, long = (np.array(some, np.int64) for some in zip(*places, strict=True))
    return Blocks(begun, long, np.array(digests, np.uint64))


def _places(metadata: Any) -> Iterator[tuple[int, int]]:  # noqa: ANN401 - the library's
    """Yield where each chunk begins, and how many bytes it has."""
    for group in range(metadata.num_row_groups):
        group_metadata = metadata.row_group(group)
        for column in range(metadata.num_columns):
            chunk = group_metadata.column(column)
            begin = chunk.data_page_offset
            if chunk.has_dictionary_page:
                begin = min(begin, chunk.dictionary_page_offset)
            yield begin, chunk.total_compressed_size


def _bounds(metadata: Any, column: str) -> tuple[Int64s, Int64s]:  # noqa: ANN401 - the library's
    count = metadata.num_row_groups
    least, most = np.full(count, INT64_MIN), np.full(count, INT64_MAX)
    # A field inside of a value may have the same name.
    paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    if column in paths:
        place = paths.index(column)
        for group in range(count):
            statistics = metadata.row_group(group).column(place).statistics
            if statistics is not None and statistics.has_min_max:
                least[group], most[group] = statistics.min, statistics.max
    return least, most


def _schemas_of(file: BinaryIO) -> tuple[int, ...]:
    """Return the numbers of the schemas that wrote the values of a file."""
    file.seek(0)
    parquet = _parquet.ParquetFile(file)
    if _SCHEMA not in parquet.schema_arrow.names:
        return ()
    numbers = parquet.read(columns=[_SCHEMA], use_threads=False).column(_SCHEMA)
    return tuple(np.unique(numbers.to_numpy()).tolist())
