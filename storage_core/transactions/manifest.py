"""Staged transactions: rows kept aside until all of them are there.

    staging/<name>/<attempt>/*.arrow     rows, in parts of one shard each (staged_rows.py)
    staging/<name>/manifest.json         what was staged; published once by link(2)
    staging/<name>/done-0000             the shard has all its rows, durably
    staging/<name>.given-up              it was given up, and may have landed by half (giving_up.py)

A transaction exists once its manifest does; then any opener of its shards can finish it. An
attempt without a manifest leaves only files, which are swept after an age.
"""

import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final

import xxhash

from storage_core.catalog.changes import locked
from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.format.contents import Contents, decode_contents, encode_contents
from storage_core.format.record import Rows
from storage_core.ground.clock import Clock
from storage_core.ground.durable_file import (
    encode_document,
    make_directories,
    read_document,
    sync_directory,
    write_once,
)
from storage_core.transactions.series import (
    NAME_PREFIX,
    TransactionId,
    id_of_name,
    read_mark,
    write_mark,
)
from storage_core.transactions.sorted_parts import read_sorted
from storage_core.transactions.staged_rows import StagedPart, is_whole, read_part, rows_of

MANIFEST_FILE: Final = "manifest.json"
NAME_BYTES_MAX: Final = 512
ABANDONED_AFTER_S: Final = 86_400
_BEGIN_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Manifest:
    """A transaction whose rows are all staged; with its id if that has a number."""

    directory: Path
    transaction: str
    shards: dict[int, tuple[StagedPart, ...]]
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

    @property
    def is_numbered(self) -> bool:
        """Tell whether the mark of its series will speak for it."""
        return self.id is not None


def is_staged(staging: Path, transaction: str) -> bool:
    """Tell whether a transaction is published and not finished everywhere."""
    return (transaction_directory(staging, transaction) / MANIFEST_FILE).exists()


def transaction_directory(staging: Path, transaction: str) -> Path:
    """Return where a transaction is staged; any text makes a safe name."""
    return staging / xxhash.xxh3_128_hexdigest(transaction.encode())


def given_up_note(directory: Path) -> Path:
    """Return what says that a transaction was given up and may have landed in some shards."""
    return directory.with_name(f"{directory.name}.given-up")


def is_needed(stream: Path, staging: Path, transaction: str, *, is_numbered: bool) -> bool:
    """Tell whether a shard that has a transaction's rows will be asked about it again.

    Of one that is staged, by whoever finishes it. Of a number also while the mark of its series
    has not reached it: if it was given up, it comes again.
    """
    if is_staged(staging, transaction):
        return True
    numbered = id_of_name(transaction) if is_numbered else None
    if numbered is None or numbered.number is None:
        return False
    try:
        mark = read_mark(stream, numbered.series)
    except CorruptionError:
        # Its own series is told; to others the damage is nothing.
        return True
    return mark is None or mark.number < numbered.number


def check_transaction_name(transaction: object) -> None:
    """Refuse a name that cannot be kept."""
    is_text = isinstance(transaction, str) and transaction.isprintable()
    size = len(str(transaction).encode()) if is_text else 0
    if not 0 < size <= NAME_BYTES_MAX or str(transaction).startswith(NAME_PREFIX):
        message = (
            f"a transaction's id is text of 1 to {NAME_BYTES_MAX} printable bytes "
            f"that does not begin with {NAME_PREFIX!r}"
        )
        raise InvalidRequestError(message)


def begin_attempt(staging: Path, transaction: str) -> Path:
    """Make a directory for one attempt at a transaction."""
    make_directories(staging)
    directory = transaction_directory(staging, transaction)
    attempt = directory / secrets.token_hex(8)
    for tries_left in reversed(range(_BEGIN_TRIES)):
        try:
            attempt.mkdir(parents=True)
            break
        except OSError:
            # Another attempt that is over may have removed the directory above just now.
            if not tries_left:
                raise
    sync_directory(directory)
    sync_directory(staging)
    return attempt


def publish_manifest(
    staging: Path,
    transaction: str | TransactionId,
    shards: Mapping[int, tuple[StagedPart, ...]],
    contents: Contents | None = None,
) -> Manifest | None:
    """Make durable files the transaction, unless others were first; durable on return.

    Under the stream's lock.

    Returns:
        The transaction; None if those who were first have finished it and cleared it away.
    """
    name = transaction if isinstance(transaction, str) else transaction.name
    directory = transaction_directory(staging, name)
    fields: dict[str, object] = {
        "transaction": name,
        "shards": {
            str(shard): [[*astuple(part)] for part in parts] for shard, parts in shards.items()
        },
    }
    if isinstance(transaction, TransactionId):
        fields |= {"series": transaction.series, "number": transaction.number}
    if contents is not None:
        fields["contents"] = encode_contents(contents)
    if not (directory / MANIFEST_FILE).exists():
        # IMPORTANT: an earlier transaction of this id may have left them; they say nothing of this.
        _remove_done(directory)
    write_once(directory / MANIFEST_FILE, encode_document(fields))
    return read_manifest(directory)


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
    """
    for part in manifest.shards[shard]:
        if not is_whole(manifest.directory, part):
            message = (
                f"a staged file of transaction {manifest.transaction!r} is missing or damaged; "
                "open with give_up_transactions to forget it"
            )
            raise CorruptionError(message, shard=shard, path=manifest.directory / part.file)
    parts = manifest.shards[shard]
    if all(part.is_sorted for part in parts):
        yield from read_sorted(manifest.directory, parts)
        return
    for part in parts:
        yield from read_part(manifest.directory, part)


def mark_done(manifest: Manifest, shard: int, clock: Clock) -> None:
    """Note that a shard has all its rows."""
    with locked(manifest.directory.parent.parent, clock):
        # Where the manifest is gone, another process has noted it, and cleared all away.
        if manifest.is_published:
            (manifest.directory / f"done-{shard:04d}").touch()


def clear_if_done(manifest: Manifest, clock: Clock) -> None:
    """Clear the staging away once every shard has all its rows."""
    if not all((manifest.directory / f"done-{number:04d}").exists() for number in manifest.shards):
        return
    stream = manifest.directory.parent.parent
    with locked(stream, clock):
        if manifest.id is not None:
            # IMPORTANT: the mark before the manifest goes, so that a replay meets one of them.
            _write_mark(stream, manifest.transaction, manifest.id, manifest.contents)
        remove_transaction(manifest.directory)


def _write_mark(
    stream: Path, transaction: str, numbered: TransactionId, contents: Contents | None
) -> None:
    try:
        write_mark(stream, numbered, contents)
    except CorruptionError as error:
        message = (
            f"{error.message}; restore the file, or open with "
            f"give_up_transactions=[{transaction!r}], whose rows are all there"
        )
        raise CorruptionError(message, path=error.path) from error


def remove_transaction(directory: Path) -> None:
    """Clear a transaction away that has landed, or will not; if it is there."""
    clear_staged(directory)
    given_up_note(directory).unlink(missing_ok=True)


def clear_staged(directory: Path) -> None:
    """Clear what is staged of a transaction away, its manifest first."""
    (directory / MANIFEST_FILE).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        sync_directory(directory)
        _remove_done(directory)
    shutil.rmtree(directory, ignore_errors=True)


def _remove_done(directory: Path) -> None:
    """Take back what shards noted; durable on return."""
    notes = list(directory.glob("done-*"))
    for note in notes:
        note.unlink(missing_ok=True)
    if notes:
        sync_directory(directory)


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
            if (directory / MANIFEST_FILE).exists():
                continue
            # A task may write for long to a file that was there when the attempt began.
            if max(path.stat().st_mtime for path in (directory, *directory.rglob("*"))) < oldest_s:
                shutil.rmtree(directory, ignore_errors=True)
                swept += 1
    return swept


def _decode_parts(parts: list[Any]) -> tuple[StagedPart, ...]:
    """Return a shard's parts; where there was one file a shard it is [file, rows, size, check]."""
    if parts and isinstance(parts[0], str):
        file, rows, size, checksum = parts
        return (StagedPart(file, 0, size, rows, checksum),)
    return tuple(StagedPart(*fields) for fields in parts)
