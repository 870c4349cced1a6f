"""The file of a run: heads, ascending by id, and dead letters behind them.

It has the columns of `run_heads.py`; if there are dead letters `dead_letter` too, which is null of
heads, and of dead letters what they were: these have no id, and their address.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.keys import INT64_MIN
from storage_core.lake.heads.run_heads import NONE
from storage_core.lake.heads.run_notes import RunNotes, decode_notes, encode_notes
from storage_core.parts.part_proof import digest_of
from storage_core.platform.durable_file import file_errors

_NOTES: Final = b"shardlog.heads"
_DEAD_LETTER: Final = "dead_letter"
# What a metadata of many schemas may take.
_METADATA_BYTES_MAX: Final = 2**30
_parquet: Any = pq
_untyped: Any = pa
_compute: Any = pc


def write_run_file(path: Path, heads: pa.Table, notes: RunNotes) -> bytes:
    """Write a run; return the digest of its file.

    Raises:
        UnavailableError: There is no disk or no memory for it.
    """
    table: Any = heads
    if notes.dead_letters:
        table = _with_dead_letters(heads, notes.dead_letters)
    name = heads.schema.names[0]
    encodings = dict.fromkeys(("primary", "address", "last"), "DELTA_BINARY_PACKED")
    encodings[name] = "DELTA_BYTE_ARRAY" if name == "key" else "DELTA_BINARY_PACKED"
    try:
        with file_errors(path, "writing a heads run"):
            with _parquet.ParquetWriter(
                path,
                table.schema,
                compression="zstd",
                use_dictionary=False,
                column_encoding=encodings,
                store_schema=False,
                write_statistics=False,
            ) as writer:
                writer.write_table(table)
                writer.add_key_value_metadata({_NOTES: encode_notes(notes)})
            return digest_of(path)
    except (pa.ArrowException, MemoryError) as error:
        message = f"a heads run cannot be written: {error}"
        raise UnavailableError(message, path=path) from error


def read_run_file(path: Path, digest: str) -> tuple[pa.Table, RunNotes]:
    """Return what `write_run_file` was given, whose file has a digest.

    Raises:
        CorruptionError: The file is another.
        UnsupportedFormatError: A later shardlog wrote it.
        UnavailableError: There is no memory for it, or the disk fails.
    """
    with file_errors(path, "reading a heads run"):
        if digest_of(path).hex() != digest:
            message = "a heads run is damaged"
            raise CorruptionError(message)
        try:
            limits = dict.fromkeys(
                ("thrift_string_size_limit", "thrift_container_size_limit"), _METADATA_BYTES_MAX
            )
            with _parquet.ParquetFile(path, **limits) as file:
                # Before its rows: a later shardlog may have others.
                notes = decode_notes((file.metadata.metadata or {}).get(_NOTES))
                table: Any = file.read(use_threads=False)
        except (pa.ArrowException, MemoryError) as error:
            message = f"a heads run cannot be read: {error}"
            raise UnavailableError(message) from error
    table = table.replace_schema_metadata(None)
    if _DEAD_LETTER not in table.schema.names:
        return table, notes
    is_dead = table.column(_DEAD_LETTER).is_valid()
    dead = table.filter(is_dead)
    raws: list[bytes] = dead.column(_DEAD_LETTER).to_pylist()
    dead_letters = tuple(zip(dead.column("address").to_pylist(), raws, strict=True))
    heads = table.drop_columns([_DEAD_LETTER]).filter(_compute.invert(is_dead))
    return heads, replace(notes, dead_letters=dead_letters)


def _with_dead_letters(heads: pa.Table, dead_letters: tuple[tuple[int, bytes], ...]) -> pa.Table:
    name, count = heads.schema.names[0], len(dead_letters)
    rows = {
        name: _untyped.nulls(count, heads.schema.field(name).type),
        "primary": np.full(count, INT64_MIN),
        "address": np.array([address for address, _ in dead_letters], np.int64),
        "last": np.full(count, NONE, np.int64),
        _DEAD_LETTER: _untyped.array([raw for _, raw in dead_letters], pa.binary()),
    }
    before: Any = heads.append_column(_DEAD_LETTER, pa.nulls(heads.num_rows, pa.binary()))
    table: pa.Table = pa.concat_tables([before, _untyped.table(rows, before.schema)])
    return table
