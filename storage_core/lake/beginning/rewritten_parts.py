"""Files that were rewritten for their table, brought here and made parts of their own.

What leads back to the part's columns is in the file. The part has another digest than the one that
it was made of; the next publish puts it in the place of the file.
"""

import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import FileProof, part_file_name
from storage_core.lake.beginning.file_facts import FileFacts
from storage_core.lake.beginning.table_parts import damaged
from storage_core.lake.casts import as_part
from storage_core.lake.file_store import FileStore
from storage_core.lake.image_names import ImageName
from storage_core.lake.table import LakeFileGoneError
from storage_core.parts.footer import read_error, read_footer
from storage_core.parts.part_file import write_part
from storage_core.parts.part_proof import digest_of

_DOWNLOADED: Final = "downloaded.parquet"
_parquet: Any = pq


def bring_file(store: FileStore, path: str, name: ImageName, into: Path) -> None:
    """Bring a file of a table here, and compare all of it with the digest in its name.

    It is durable on return, but for its name here.

    Raises:
        CorruptionError: It differs, or the store does not have it.
        UnavailableError: The store does not answer, or the disk refuses.
    """
    try:
        store.get(path, into)
    except LakeFileGoneError as error:
        raise damaged(name, path, "the store does not have it") from error
    if digest_of(into).hex() != (name.rewritten_digest or name.entry_digest):
        raise damaged(name, path, "its bytes do not have the digest that its name tells")
    with into.open("rb") as file:
        os.fsync(file.fileno())


def part_again(  # noqa: PLR0913 - where it is, and what becomes of it
    store: FileStore, path: str, name: ImageName, directory: Path, number: int, *, has_keys: bool
) -> tuple[FileProof, FileFacts]:
    """Make a part of a rewritten file, in a directory of parts; durable but for its name.

    Raises:
        CorruptionError: The file differs from its name.
        UnavailableError: The store does not answer, or the disk refuses.
    """
    downloaded = directory / _DOWNLOADED
    bring_file(store, path, name, downloaded)
    rows = _part_rows(downloaded)
    downloaded.unlink()
    target = directory / part_file_name(number)
    order = ("key" if has_keys else "secondary", "primary", "address")
    # It is published again: floats that are split would be written again for that.
    proof = write_part(target, rows, order, has_split_floats=False)
    return proof, FileFacts.of(read_footer(target, proof))


def _part_rows(file: Path) -> pa.Table:
    try:
        with file.open("rb") as opened:
            parquet = _parquet.ParquetFile(opened, page_checksum_verification=True)
            return as_part(parquet.read(use_threads=False), parquet.schema_arrow)
    except (pa.ArrowException, OSError, MemoryError) as error:
        failure = read_error(file, error)
        if isinstance(failure, FileNotFoundError):
            message = "a file of the table is gone from here while it was read"
            raise CorruptionError(message, path=file) from error
        raise failure from error
