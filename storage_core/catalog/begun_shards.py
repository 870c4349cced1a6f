"""Logs that are made with what they begin with, and come to be the logs of their shards at once.

    <stream>/~begun~<shard>~<lineage>/     a log that is being made, locked by whoever makes it

1. A directory beside the shards is made and locked; who was killed in it is cleared away by the
   next who makes one. Nothing knows it.
2. Whoever makes the log writes its marker, its store and its files there, durably.
3. Under the stream's lock, which is held for no longer, the directory gets its place, and
   options.json names it: a new shard, or a new log in the place of one, which is archived as any
   other (archived_shards.py). Killed before that, nothing has changed.

A log in its place that options.json does not name was never opened; its marker says so, and a file
`begun` that it was made with its store. It is cleared away with others that nobody came to list
(births.py).
"""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from storage_core.catalog.archived_shard import log_name
from storage_core.catalog.archived_shards import (
    archived_log,
    clear_away,
    mark_copy,
    move_aside,
    put_in_place,
)
from storage_core.catalog.births import BEGUN_FILE, make_shard, new_lineage, remove_unborn_shard
from storage_core.catalog.changes import locked, rewritten
from storage_core.catalog.stream_file import StreamFiles, shard_directory
from storage_core.engine.commit_marker import MARKER_FILE, create_marker, open_marker
from storage_core.engine.left_config import has_store
from storage_core.engine.writer_lock import WriterLock
from storage_core.errors import UnavailableError
from storage_core.platform.clock import Clock
from storage_core.platform.durable_file import move_directory, sync_directory, taking_errors
from storage_core.platform.file_lock import DirectoryLock

_MAKING: Final = "~begun~"
_SLOTS: Final = 2


@dataclass(frozen=True, slots=True)
class BegunLog:
    """A log that is being made.

    Attributes:
        shard: The shard whose log it is to be.
        lineage: Its random id.
        directory: Where it is made.
        replaced: The lineage of the log that was there when it was begun; None for no log.
    """

    shard: int
    lineage: bytes
    directory: Path
    replaced: bytes | None


@contextmanager
def log_in_making(files: StreamFiles, shard: int, end: int) -> Iterator[BegunLog]:
    """Give a directory for a log, with its marker; what is not put in its place is removed.

    Args:
        files: The stream's.
        shard: The shard.
        end: The address up to which the log is committed.

    Raises:
        UnavailableError: The disk refuses.
    """
    stream, lineage = files.directory, new_lineage()
    with taking_errors(stream, "making a log"):
        for left in sorted(stream.glob(f"{_MAKING}*")):
            _remove_left(left)
        directory = stream / f"{_MAKING}{shard}~{lineage.hex()}"
        make_shard(directory, end, lineage)
        (directory / BEGUN_FILE).touch()
        lock = DirectoryLock.if_free(directory)
    if lock is None:
        message = "another process took a log that is being made for one that was left; try again"
        raise UnavailableError(message, stream=files.meta.name, shard=shard)
    with lock:
        try:
            yield BegunLog(shard, lineage, directory, files.settings.lineages.get(shard))
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise


def put_begun_log(
    files: StreamFiles, log: BegunLog, born: int, clock: Clock, *, is_copy: bool = False
) -> StreamFiles:
    """Make a log, all of which is durable, the log of its shard; durable on return.

    Args:
        files: The stream's.
        log: It.
        born: The first address that it can ever have had.
        clock: Tells when the log before it was archived.
        is_copy: Whether the log before it has at each address the row that any other log of the
            shard has there, so that it may go once they have all of its rows.

    Raises:
        UnavailableError: Another log has come there since, or the stream has got another lake; or
            a writer holds the shard, or the disk refuses. Nothing was changed.
        CorruptionError: The stream's files are damaged. Damage of the log that was there does not
            matter.
    """
    stream, shard = files.directory, log.shard
    with taking_errors(stream, "putting a log in its place"), locked(stream):
        lake = files.settings.options.lake
        files = replace(files, shards_open=frozenset()).reread()
        if files.settings.options.lake != lake:
            # Its parts would be looked for where they are not.
            message = "the stream has got another lake meanwhile; try again"
            raise UnavailableError(message, stream=files.meta.name, shard=shard)
        if files.settings.lineages.get(shard) != log.replaced:
            message = "another process has put a log in the shard's place; try again"
            raise UnavailableError(message, stream=files.meta.name, shard=shard)
        if log.replaced is None:
            return _put_new(files, log, born)
        clear_away(files, [shard])
        _make_missing(files, shard)
        lock = WriterLock.acquire(
            files.shard_directory(shard), clock, stream=files.meta.name, shard=shard
        )
        with lock:
            is_end_known = _make_marker_whole(files, shard)
            archived = archived_log(files, shard, clock)
            move_directory(log.directory, stream / log_name(shard, log.lineage.hex()))
            files = put_in_place(files, [archived], {shard: log.lineage}, {shard: born})
            # Of how far another one goes nobody can say, nor whose rows it has.
            if is_copy and is_end_known:
                mark_copy(files.directory / archived.directory)
            move_aside(stream, archived)
    return files


def _make_missing(files: StreamFiles, shard: int) -> None:
    """Make a log whose directory is gone anew, without a row, so that it is archived as any other.

    Of which log the shard was is remembered then.
    """
    directory = files.shard_directory(shard)
    if not directory.exists():
        make_shard(directory, files.born(shard), files.lineage(shard))


def _make_marker_whole(files: StreamFiles, shard: int) -> bool:
    """Make both slots of a log's marker valid; the holder of its lock alone may.

    Where none is, nobody knows what was committed: the log has its files then, and shows no row.

    Returns:
        Whether the marker told how far the log goes; else that may have committed more.
    """
    path = files.shard_directory(shard) / MARKER_FILE
    marker, valid_slots = open_marker(path) if path.exists() else (None, 0)
    if marker is None:
        create_marker(path, files.born(shard), files.lineage(shard))
        sync_directory(path.parent)
        return False
    with closing(marker):
        if valid_slots < _SLOTS:
            marker.write_both(marker.state)
        committed = marker.state.committed
    # A call that was killed may have made it anew.
    is_anew = committed <= files.born(shard) and has_store(path.parent)
    return valid_slots == _SLOTS and not is_anew


def _put_new(files: StreamFiles, log: BegunLog, born: int) -> StreamFiles:
    place = shard_directory(files.directory, log.shard)
    if place.exists():
        remove_unborn_shard(place, files.meta.name, "not listed in options.json")
    move_directory(log.directory, place)
    settings = files.settings
    births = {**settings.births, log.shard: born} if born else settings.births
    lineages = {**settings.lineages, log.shard: log.lineage}
    # IMPORTANT: listed last; a listed shard whose directory is missing is taken for damage.
    return rewritten(files, replace(settings, lineages=lineages, births=births))


def _remove_left(directory: Path) -> None:
    """Remove a log whose maker was killed; nobody but its maker locks it."""
    # Gone meanwhile.
    with suppress(FileNotFoundError, NotADirectoryError):
        lock = DirectoryLock.if_free(directory)
        if lock is not None:
            with lock:
                shutil.rmtree(directory, ignore_errors=True)
