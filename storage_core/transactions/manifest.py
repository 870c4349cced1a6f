"""Staging: rows kept aside until all of them are there, and the manifest that makes them count.

    staging/<name>/<attempt>/*.arrow     rows, in parts of one shard each (staged_rows.py)
    staging/<name>/manifest.json         what was staged; published once by link(2)
    staging/<name>/done-0000             the shard has all its rows, durably
    staging/<name>.given-up              it was given up, and may have landed by half (giving_up.py)

A transaction exists once its manifest does; then any opener of its shards can finish it. An
attempt without a manifest leaves only files, which are deleted after an age. What changes a
transaction's directory, beside rows in an attempt, is done under the stream's lock.
"""

import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final

from storage_core.catalog.changes import locked
from storage_core.errors import CorruptionError, ShardlogError, UnavailableError
from storage_core.format.contents import Contents, decode_contents, encode_contents
from storage_core.format.record import Rows
from storage_core.platform import xxh3
from storage_core.platform.clock import Clock
from storage_core.platform.durable_file import (
    encode_document,
    make_directories,
    read_document,
    sync_directory,
    write_once,
)
from storage_core.platform.file_lock import DirectoryLock
from storage_core.transactions.merge_sorted import read_sorted
from storage_core.transactions.series import TransactionId, write_mark
from storage_core.transactions.staged_rows import StagedRows, is_whole, read_part, rows_of

MANIFEST_FILE: Final = "manifest.json"
ABANDONED_AFTER_S: Final = 86_400

Parts = Mapping[int, tuple[StagedRows, ...]]
# A caller's own id, or one whose rows other processes may stage.
AnyId = str | TransactionId


@dataclass(frozen=True, slots=True)
class Staging:
    """Where a stream's transactions are staged."""

    directory: Path
    clock: Clock

    @property
    def stream(self) -> Path:
        """The stream's directory."""
        return self.directory.parent

    def of(self, transaction: AnyId) -> Path:
        """Return where a transaction is staged; any text makes a safe name."""
        return self.directory / xxh3.xxh3_128_hexdigest(name_of(transaction).encode())

    def locked(self) -> DirectoryLock:
        """Lock the stream's own files."""
        return locked(self.stream)

    def directories(self) -> list[Path]:
        """Return those of all transactions."""
        paths = self.directory.iterdir() if self.directory.is_dir() else ()
        return sorted(path for path in paths if path.is_dir())


@dataclass(frozen=True, slots=True)
class Manifest:
    """A transaction whose rows are all staged; with its id if that has a number."""

    directory: Path
    transaction: str
    shards: dict[int, tuple[StagedRows, ...]]
    id: TransactionId | None = None
    contents: Contents | None = None

    @property
    def rows_total(self) -> int:
        """Rows over all shards."""
        return rows_of(self.shards)

    @property
    def is_published(self) -> bool:
        """Tell whether the transaction is still to be finished, or being finished."""
        return (self.directory / MANIFEST_FILE).exists()


def name_of(transaction: AnyId) -> str:
    """Return a transaction's name in the shards."""
    return transaction if isinstance(transaction, str) else transaction.name


def given_up_note(directory: Path) -> Path:
    """Return what says that a transaction was given up and may have landed in some shards."""
    return directory.with_name(f"{directory.name}.given-up")


def begin_attempt(staging: Staging, transaction: AnyId) -> Path:
    """Make a directory for one attempt at a transaction. Under the stream's lock."""
    attempt = staging.of(transaction) / secrets.token_hex(8)
    make_directories(attempt)
    return attempt


def write_manifest(
    staging: Staging, transaction: AnyId, shards: Parts, contents: Contents | None = None
) -> Manifest:
    """Make durable parts the transaction, unless others were first; durable on return.

    Under the stream's lock.
    """
    directory = staging.of(transaction)
    fields: dict[str, object] = {
        "transaction": name_of(transaction),
        "shards": {
            str(shard): [[*astuple(part)] for part in parts] for shard, parts in shards.items()
        },
    }
    if isinstance(transaction, TransactionId):
        fields |= {"series": transaction.series, "number": transaction.number}
    if contents is not None:
        fields["contents"] = encode_contents(contents)
    make_directories(directory)
    if not (directory / MANIFEST_FILE).exists():
        # IMPORTANT: an earlier transaction of this id may have left them; they say nothing of this.
        _remove_done(directory)
    write_once(directory / MANIFEST_FILE, encode_document(fields))
    manifest = read_manifest(directory)
    assert manifest is not None, "it goes under the stream's lock only"
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
            f"{error.message}; which transaction it was is not known any more: restore the "
            f"file, or open with give_up_transactions=[{directory.name!r}] to give it up"
        )
        raise CorruptionError(message, path=error.path) from error
    shards = {int(shard): _decode_parts(parts) for shard, parts in document["shards"].items()}
    number = document.get("number")
    numbered = None if number is None else TransactionId(document["series"], number)
    held = document.get("contents")
    contents = None if held is None else decode_contents(held)
    return Manifest(directory, document["transaction"], shards, numbered, contents)


def read_staged_rows(manifest: Manifest, shard: int) -> Iterator[Rows]:
    """Yield a shard's staged rows, once all of them are proven; they were accepted when staged.

    Raises:
        CorruptionError: A file is missing or damaged.
        UnavailableError: The transaction is not there any more, perhaps a later one of its id.
    """
    parts = manifest.shards[shard]
    for part in parts:
        if not is_whole(manifest.directory, part):
            raise _not_whole(manifest, shard, manifest.directory / part.file)
    try:
        if all(part.is_sorted for part in parts):
            yield from read_sorted(manifest.directory, parts)
            return
        for part in parts:
            yield from read_part(manifest.directory, part)
    except FileNotFoundError as error:
        raise _not_whole(manifest, shard, manifest.directory) from error


def _not_whole(manifest: Manifest, shard: int, path: Path) -> ShardlogError:
    if read_manifest(manifest.directory) != manifest:
        return rows_removed(manifest, shard)
    message = (
        f"a staged file of transaction {manifest.transaction!r} is missing or damaged; "
        "open with give_up_transactions to forget it"
    )
    return CorruptionError(message, shard=shard, path=path)


def rows_removed(manifest: Manifest, shard: int) -> UnavailableError:
    """Return the error of a transaction that somebody removed while it was being finished."""
    message = f"the staged rows of transaction {manifest.transaction!r} were removed"
    return UnavailableError(message, shard=shard, path=manifest.directory)


def note_done(staging: Staging, manifest: Manifest, shards: Iterable[int]) -> None:
    """Note that shards have all their rows; clear the staging away once every shard has."""
    with staging.locked():
        # Where it is gone, others have noted it and cleared all away; the next one of its id may
        # lie there by now.
        if read_manifest(manifest.directory) != manifest:
            return
        for shard in shards:
            _done_note(manifest.directory, shard).touch()
        if all(_done_note(manifest.directory, shard).exists() for shard in manifest.shards):
            if manifest.id is not None:
                # IMPORTANT: the mark before the manifest goes, so that a replay meets one of them.
                _write_mark(staging, manifest.transaction, manifest.id, manifest.contents)
            remove_transaction(manifest.directory)


def _write_mark(
    staging: Staging, transaction: str, numbered: TransactionId, contents: Contents | None
) -> None:
    try:
        write_mark(staging.stream, numbered, contents)
    except CorruptionError as error:
        message = (
            f"{error.message}; restore the file, or open with "
            f"give_up_transactions=[{transaction!r}], whose rows are all there"
        )
        raise CorruptionError(message, path=error.path) from error


def remove_transaction(directory: Path) -> None:
    """Clear a transaction away that has landed, or will not; if it is there."""
    # IMPORTANT: while the manifest is there, nobody looks at the note.
    given_up_note(directory).unlink(missing_ok=True)
    clear_staged(directory)


def clear_staged(directory: Path) -> None:
    """Clear what is staged of a transaction away, its manifest first."""
    (directory / MANIFEST_FILE).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        sync_directory(directory)
        _remove_done(directory)
    shutil.rmtree(directory, ignore_errors=True)


def remove_attempts(directory: Path, attempts: Iterable[str]) -> None:
    """Clear attempts away that the manifest does not name, and what they leave empty.

    Under the stream's lock.
    """
    manifest = read_manifest(directory)
    published = set() if manifest is None else attempts_of(manifest.shards)
    for attempt in set(attempts) - published:
        shutil.rmtree(directory / attempt, ignore_errors=True)
    with suppress(OSError):
        directory.rmdir()


def attempts_of(parts: Parts) -> set[str]:
    """Return the attempts in whose directories parts lie."""
    return {attempt_of(part) for of_shard in parts.values() for part in of_shard}


def attempt_of(part: StagedRows) -> str:
    """Return the attempt in whose directory a part lies."""
    return part.file.partition("/")[0]


def staged_transactions(staging: Staging) -> Iterator[Manifest]:
    """Yield the transactions that have a manifest."""
    for directory in staging.directories():
        manifest = read_manifest(directory)
        if manifest is not None:
            yield manifest


def delete_abandoned(staging: Staging) -> int:
    """Remove old attempts that never got a manifest, unless others are at it; return how many."""
    lock = DirectoryLock.if_free(staging.stream)
    if lock is None:
        return 0
    with lock:
        old = [
            directory for directory in staging.directories() if _is_abandoned(staging, directory)
        ]
        for directory in old:
            shutil.rmtree(directory, ignore_errors=True)
    return len(old)


def _is_abandoned(staging: Staging, directory: Path) -> bool:
    if (directory / MANIFEST_FILE).exists():
        return False
    oldest_s = staging.clock.now_ns() / 10**9 - ABANDONED_AFTER_S
    with suppress(FileNotFoundError):
        # A task may write for long to a file that was there when the attempt began.
        return max(path.stat().st_mtime for path in (directory, *directory.rglob("*"))) < oldest_s
    return False


def _done_note(directory: Path, shard: int) -> Path:
    return directory / f"done-{shard:04d}"


def _remove_done(directory: Path) -> None:
    """Take back what shards noted; durable on return."""
    notes = list(directory.glob("done-*"))
    for note in notes:
        note.unlink(missing_ok=True)
    if notes:
        sync_directory(directory)


def _decode_parts(parts: list[Any]) -> tuple[StagedRows, ...]:
    return tuple(StagedRows(*fields) for fields in parts)
