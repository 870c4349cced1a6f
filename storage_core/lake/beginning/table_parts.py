"""The files of a shard in its table, as what a part list says of them: by names and footers alone.

Of each file the end is read, some at a time. The name tells the digest of the whole file and
between which addresses its rows lie; the footer tells the rest, and has the digests of all other
bytes. What the name and the footer both say is compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from storage_core.avro import AvroSchema
from storage_core.errors import CorruptionError
from storage_core.format.chunk_table import decode_chunk_table, find_chunk_table, has_right_check
from storage_core.format.part_entry import FileProof, PartEntry
from storage_core.format.schema_entry import SchemaEntry
from storage_core.lake.beginning.file_facts import FileFacts
from storage_core.lake.file_store import FileStore
from storage_core.lake.image_names import ImageName, image_of_path
from storage_core.lake.table import LakeFileGoneError
from storage_core.parts.footer import Footer
from storage_core.platform import xxh3
from storage_core.platform.threads import Threads

# What is read of a file's end at first: mostly all of the footer.
_END_BYTES: Final = 2**16
_AT_ONCE: Final = 8
# Behind a footer of Parquet: how many bytes it has, and four that tell the format.
_BEHIND_FOOTER: Final = 8
# A part of the highest level, and how many of a level make one of the next.
_TOP_LEVEL: Final = 3
_TOP_ROWS: Final = 1_000_000
_MERGED: Final = 5
Int64s = npt.NDArray[np.int64]
_parquet: Any = pq
_untyped: Any = pa


@dataclass(frozen=True, slots=True)
class TableFooter:
    """The end of one of the table's files.

    Attributes:
        path: Its place in the table.
        name: What that tells.
        proof: What proves the file.
        facts: What its end says.
    """

    path: str
    name: ImageName
    proof: FileProof
    facts: FileFacts


@dataclass(frozen=True, slots=True)
class TablePart:
    """A part of a log that begins from its table.

    Attributes:
        entry: What the part list is to say of it.
        facts: What the end of its file says.
    """

    entry: PartEntry
    facts: FileFacts

    @property
    def is_out_of_order(self) -> bool:
        """Whether its rows were late, ahead or expired when they came."""
        return self.entry.is_out_of_order


def read_footers(store: FileStore, files: Mapping[str, int]) -> list[TableFooter]:
    """Return the ends of files that lie in a table as they are, by address.

    Args:
        store: The table's.
        files: Their paths and sizes.

    Raises:
        CorruptionError: The store lacks one, or it is no part of that name.
        UnavailableError: The store does not answer.
    """
    footers = Threads(_AT_ONCE).map(partial(_read_footer, store), [*files.items()])
    return sorted(footers, key=lambda one: (one.name.first, one.name.last, one.path))


def _read_footer(store: FileStore, file: tuple[str, int]) -> TableFooter:
    path, size = file
    name = image_of_path(path)
    try:
        data, begin = _end_of(store, path, size)
    except LakeFileGoneError as error:
        message = (
            f"the table names {path}, which its store does not have: `shardlog lake repair` in a "
            "root that has it uploads it again; `shardlog lake check` finds all that are gone"
        )
        raise CorruptionError(message, shard=name.shard) from error
    if not has_right_check(data[begin:]):
        raise damaged(name, path, "its footer does not match its checksum")
    try:
        facts = _facts_in(data, begin)
    except (pa.ArrowException, OSError, ValueError, CorruptionError) as error:
        raise damaged(name, path, "its end cannot be read") from error
    if facts.between("address") != (name.first, name.last):
        raise damaged(name, path, "its rows have other addresses than its name tells")
    data = data[begin:]
    digest = bytes.fromhex(name.rewritten_digest or name.entry_digest)
    return TableFooter(
        path, name, FileProof(size, digest, len(data), xxh3.xxh3_128_digest(data)), facts
    )


def _facts_in(data: bytes, begin: int) -> FileFacts:
    metadata = _parquet.read_metadata(_untyped.BufferReader(data))
    schema = metadata.schema.to_arrow_schema()
    return FileFacts.of(Footer(metadata, schema, decode_chunk_table(data[begin:])))


def _end_of(store: FileStore, path: str, size: int) -> tuple[bytes, int]:
    """Return the last bytes of a file, and where in them the footer of a part begins."""
    opened = store.opened(path)
    count = min(_END_BYTES, size)
    while True:
        data = opened.read(size - count, count)
        parquet_bytes = int.from_bytes(data[-_BEHIND_FOOTER:][:4], "little") + _BEHIND_FOOTER
        begin = find_chunk_table(data[: max(0, len(data) - parquet_bytes)])
        if begin is not None:
            return data, begin
        if count == size or len(data) < count:
            message = "it has no column chunk table before its footer"
            raise damaged(image_of_path(path), path, message)
        count = min(size, max(2 * count, 2 * parquet_bytes))


def damaged(name: ImageName, path: str, why: str) -> CorruptionError:
    """Return what tells that a file of a table is not what its name says."""
    message = f"{path} in the table is damaged: {why}"
    return CorruptionError(message, shard=name.shard, start=name.first, end=name.last + 1)


def entry_of(  # noqa: PLR0913 - what an entry tells
    facts: FileFacts,
    proof: FileProof,
    number: int,
    schemas: Sequence[SchemaEntry],
    now_ms: int,
    *,
    damaged_runs: Sequence[str] = (),
) -> PartEntry:
    """Return what the part list is to say of a file.

    Args:
        facts: What its end says.
        proof: What proves it.
        number: The part's.
        schemas: Those of the shard, by number.
        now_ms: When the log begins.
        damaged_runs: Heads runs of the shard that may have told of more schemas.

    Raises:
        CorruptionError: Its values have a schema that nobody knows.
    """
    first, last = facts.between("address")
    rows = facts.rows
    return PartEntry(
        first,
        number,
        last,
        *facts.between("primary"),
        rows=rows,
        size=proof.size,
        sealed_at_ms=now_ms,
        level=_level_of(rows),
        is_out_of_order=facts.between("state")[1] > 0,
        digest=proof.digest,
        kind=_kind_of(facts, schemas, damaged_runs),
        footer_bytes=proof.footer_bytes,
        footer_digest=proof.footer_digest,
    )


def _kind_of(facts: FileFacts, schemas: Sequence[SchemaEntry], damaged_runs: Sequence[str]) -> str:
    numbers = facts.schemas
    if not numbers:
        return ""
    if numbers[-1] >= len(schemas):
        why = "an older shardlog published them"
        if damaged_runs:
            why = f"{damaged_runs[0]} is damaged"
        message = (
            f"no heads run tells schema {numbers[-1]} of its values, since {why}: `shardlog lake "
            "repair` in a root that has the rows writes it; or read the table itself"
        )
        raise CorruptionError(message)
    return AvroSchema.stored(schemas[numbers[0]].text).full_name


def _level_of(rows: int) -> int:
    """Return how often rows were merged, about: the table does not tell."""
    return max(0, _TOP_LEVEL - max(0, round(log(_TOP_ROWS / max(1, rows), _MERGED))))
