"""Staged transactions: rows kept aside until all of them are there.

    staging/<name>/<attempt>/shard-0000.arrow    an Arrow IPC stream of the shard's rows
    staging/<name>/manifest.json                 what was staged; published once by link(2)
    staging/<name>/done-0000                     the shard has all its rows, durably

A transaction exists once its manifest does; then any opener of its shards can finish it. An
attempt without a manifest leaves only files, which are swept after an age.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import xxhash

from storage_core.clock import Clock
from storage_core.durable_file import (
    encode_document,
    make_directories,
    read_document,
    sync_directory,
    write_once,
)
from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.options import PAYLOAD_BYTES_MAX
from storage_core.record import ENVELOPE, Rows, rows_from_arrow

MANIFEST_FILE: Final = "manifest.json"
NAME_BYTES_MAX: Final = 512
ABANDONED_AFTER_S: Final = 86_400
_READ_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One shard's rows of a transaction."""

    file: str
    rows: int
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A transaction whose rows are all staged."""

    directory: Path
    transaction: str
    shards: dict[int, StagedFile]

    @property
    def rows_total(self) -> int:
        """Rows over all shards."""
        return sum(staged.rows for staged in self.shards.values())


class StagedShardWriter:
    """Writes one shard's rows to a staged file."""

    def __init__(self, path: Path) -> None:
        """Create the file."""
        self._path = path
        self._file = _ChecksummedFile(path)
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._names: tuple[str, ...] = ()
        self.rows = 0

    def write(self, rows: Rows) -> None:
        """Append rows; all batches of a transaction have the same columns.

        Raises:
            InvalidRequestError: The columns differ from those before.
        """
        batch = _as_batch(rows)
        names = tuple(batch.schema.names)
        if self._writer is None:
            self._names = names
            sink = pa.PythonFile(self._file, "w")  # type: ignore[arg-type]  # a file by its methods
            self._writer = pa.ipc.new_stream(sink, batch.schema)
        if names != self._names:
            message = f"columns {names} differ from the transaction's first batch, {self._names}"
            raise InvalidRequestError(message)
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def finish(self) -> StagedFile:
        """Make the file durable and describe it."""
        if self._writer is not None:
            self._writer.close()
        self._file.sync_and_close()
        name = f"{self._path.parent.name}/{self._path.name}"
        return StagedFile(name, self.rows, self._file.size, self._file.checksum)

    def abandon(self) -> None:
        """Close the file without a promise."""
        self._file.close()


class _ChecksummedFile:
    """A file that knows the checksum of what was written to it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._hash = xxhash.xxh3_64()
        self.size = 0
        self.closed = False

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def sync_and_close(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self.close()

    def close(self) -> None:
        self.closed = True
        self._file.close()


def transaction_directory(staging: Path, transaction: str) -> Path:
    """Return where a transaction is staged; any text makes a safe name."""
    return staging / xxhash.xxh3_128_hexdigest(transaction.encode())


def check_transaction_name(transaction: object) -> None:
    """Refuse a name that cannot be kept."""
    is_text = isinstance(transaction, str) and transaction.isprintable()
    size = len(str(transaction).encode()) if is_text else 0
    if not 0 < size <= NAME_BYTES_MAX:
        message = f"a transaction's id is text of 1 to {NAME_BYTES_MAX} printable bytes"
        raise InvalidRequestError(message)


def begin_attempt(staging: Path, transaction: str) -> Path:
    """Make a directory for one attempt at a transaction."""
    attempt = transaction_directory(staging, transaction) / secrets.token_hex(8)
    make_directories(attempt)
    return attempt


def publish_manifest(
    staging: Path, attempt: Path, transaction: str, shards: dict[int, StagedFile]
) -> Manifest:
    """Make an attempt the transaction, unless another one was first; durable on return."""
    directory = transaction_directory(staging, transaction)
    sync_directory(attempt)
    fields = {
        "transaction": transaction,
        "shards": {
            str(shard): [staged.file, staged.rows, staged.size, staged.checksum]
            for shard, staged in shards.items()
        },
    }
    write_once(directory / MANIFEST_FILE, encode_document(fields))
    manifest = read_manifest(directory)
    assert manifest is not None
    return manifest


def read_manifest(directory: Path) -> Manifest | None:
    """Return a transaction's manifest, or None if it has none.

    Raises:
        CorruptionError: The manifest is damaged.
    """
    try:
        document: dict[str, Any] = read_document(directory / MANIFEST_FILE)
    except FileNotFoundError:
        return None
    except CorruptionError as error:
        message = (
            f"{error.message}; which transaction it was is not known any more: "
            "restore the file, or remove its directory to give the transaction up"
        )
        raise CorruptionError(message, path=error.path) from error
    shards = {int(shard): StagedFile(*fields) for shard, fields in document["shards"].items()}
    return Manifest(directory, document["transaction"], shards)


def read_staged_rows(manifest: Manifest, shard: int) -> Iterator[Rows]:
    """Yield a shard's staged rows, once the whole file is proven; they were accepted when staged.

    Raises:
        CorruptionError: The file is missing or damaged.
    """
    staged = manifest.shards[shard]
    path = manifest.directory / staged.file
    if _checksum_of(path) != (staged.size, staged.checksum):
        message = (
            f"a staged file of transaction {manifest.transaction!r} is missing or damaged; "
            "open with give_up_transactions to forget it"
        )
        raise CorruptionError(message, shard=shard, path=path)
    if staged.rows == 0:
        return
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as batches:
        for batch in batches:
            yield rows_from_arrow(batch, PAYLOAD_BYTES_MAX)


def mark_done(manifest: Manifest, shard: int) -> None:
    """Note that a shard has all its rows."""
    (manifest.directory / f"done-{shard:04d}").touch()


def clear_if_done(manifest: Manifest) -> None:
    """Clear the staging away once every shard has all its rows."""
    if all((manifest.directory / f"done-{number:04d}").exists() for number in manifest.shards):
        remove_transaction(manifest.directory)


def remove_transaction(directory: Path) -> None:
    """Clear a transaction's staging away, its manifest first; if it is there."""
    if not directory.is_dir():
        return
    (directory / MANIFEST_FILE).unlink(missing_ok=True)
    sync_directory(directory)
    shutil.rmtree(directory, ignore_errors=True)


def remove_attempt(attempt: Path) -> None:
    """Clear one attempt away, and the transaction's directory if nothing else is in it."""
    shutil.rmtree(attempt, ignore_errors=True)
    with suppress(OSError):
        attempt.parent.rmdir()


def staged_transactions(staging: Path) -> Iterator[Manifest]:
    """Yield the transactions that have a manifest."""
    if not staging.is_dir():
        return
    for directory in sorted(path for path in staging.iterdir() if path.is_dir()):
        manifest = read_manifest(directory)
        if manifest is not None:
            yield manifest


def sweep_abandoned(staging: Path, clock: Clock) -> int:
    """Remove old attempts that never got a manifest; return how many."""
    swept = 0
    if not staging.is_dir():
        return swept
    oldest_s = clock.now_ns() / 10**9 - ABANDONED_AFTER_S
    for directory in sorted(path for path in staging.iterdir() if path.is_dir()):
        with suppress(FileNotFoundError):
            if not (directory / MANIFEST_FILE).exists() and directory.stat().st_mtime < oldest_s:
                shutil.rmtree(directory, ignore_errors=True)
                swept += 1
    return swept


def _as_batch(rows: Rows) -> pa.RecordBatch:
    columns = {
        "primary": pa.array(rows.primary),
        "secondary": pa.array(rows.secondary),
        "payload": rows.payload,
        "version": pa.array([0] * len(rows) if rows.version is None else rows.version, pa.uint16()),
    }
    envelope = {name: rows.envelope[name] for name in ENVELOPE if name in rows.envelope}
    return pa.RecordBatch.from_pydict(columns | envelope)


def _checksum_of(path: Path) -> tuple[int, str]:
    digest = xxhash.xxh3_64()
    size = 0
    try:
        with path.open("rb") as file:
            while data := file.read(_READ_BYTES):
                digest.update(data)
                size += len(data)
    except FileNotFoundError:
        return -1, ""
    return size, digest.hexdigest()
