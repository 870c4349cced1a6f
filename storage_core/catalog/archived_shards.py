"""Replacing the log of a shard by a new one: the old one is archived under its lineage.

    <stream>/shard-0003/                        the first log of a shard
    <stream>/shard-0003~<lineage>/              a log that has replaced one
    <stream>/~archived/shard-0003~<lineage>/    an archived log, whole, as it was

Replacing options.json is the change: before it the shard is what it was, after it the shard is
the new log, which begins where it was told to. No path ever names two logs, so whoever has the
old one open reads it or is told; never a mix. The archived lineages are remembered in options.json,
so that a worker that finds one beside its group's offset can tell it from data that lies elsewhere.
"""

import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Final

from storage_core.catalog.births import check_starts, make_shard, new_lineage, remove_unborn_shard
from storage_core.catalog.changes import locked, rewritten
from storage_core.catalog.stream_file import StreamFiles, read_stream, shard_directory
from storage_core.catalog.stream_meta import ARCHIVED_SHARDS, ArchivedShard
from storage_core.engine.commit_marker import MARKER_FILE, MarkerReader
from storage_core.engine.environment import Environment
from storage_core.engine.writer_lock import WriterLock
from storage_core.errors import InvalidRequestError
from storage_core.platform.clock import Clock
from storage_core.platform.durable_file import (
    make_directories,
    move_directory,
    reading_errors,
    sync_directory,
    taking_errors,
)

_ARCHIVE: Final = "~archived"
# Of logs that were removed so many are remembered for each shard.
_REMEMBERED_MAX: Final = 16
_LINEAGE_DIGITS: Final = 16


def archive_shards(
    root: str | PathLike[str],
    name: str,
    starts: Mapping[int, int],
    *,
    beside: Mapping[int, int] | None = None,
    environment: Environment | None = None,
) -> Sequence[ArchivedShard]:
    """Put new logs in the place of shards' logs, which are archived; durable on return.

    1. The stream and the shards are locked; nobody writes to them, nobody begins to.
    2. What a crash has left of another attempt is cleared away, or finished (step 5).
    3. Each new log's directory and marker, which says where it begins, become durable. Killed
       until here, nothing has changed.
    4. options.json names the new logs and remembers the old ones. This is the change, of all.
    5. The old logs move to `~archived`; those who have them open are told from then on. Killed
       before it, the next who opens the stream for writing does it.

    Args:
        root: The directory that holds the streams.
        name: The stream; its shards are the partitions of an origin.
        starts: For each shard the first address of its new log.
        beside: The same for shards that are archived with them where they are there by then, which
            is looked at under the stream's lock.
        environment: Time, for tests.

    Raises:
        InvalidRequestError: There is no such stream or shard, or it has no origin.
        ShardLockedError: A writer holds a shard; nothing was changed.
        CorruptionError: The stream's files, or a shard's marker, are damaged.
    """
    optional = beside or {}
    check_starts(starts)
    check_starts(optional)
    clock = (environment or Environment()).clock
    files = read_stream(Path(root).absolute(), name, is_whole=False, shards_open=starts)
    if files.meta.origin is None:
        message = "the stream has no origin whose records could be taken again; drop it instead"
        raise InvalidRequestError(message, stream=name)
    for shard in starts:
        files.lineage(shard)
    with taking_errors(files.directory, "archiving a shard"), ExitStack() as held:
        held.enter_context(locked(files.directory))
        files = files.reread()
        # IMPORTANT: under the lock; who makes a shard takes it too.
        there = {n: at for n, at in optional.items() if n in files.settings.lineages}
        starts = {**starts, **there}
        _clear_away(files, starts)
        for shard in sorted(starts):
            directory = files.shard_directory(shard)
            lock = WriterLock.acquire(directory, clock, stream=name, shard=shard, purpose="a reset")
            held.enter_context(lock)
        archived = [_archived(files, shard, clock) for shard in sorted(starts)]
        _replace(files, archived, starts)
        for log in archived:
            _move_aside(files.directory, log)
    return archived


def archived_shards(root: str | PathLike[str], name: str) -> Sequence[ArchivedShard]:
    """Return the archived logs of a stream whose data is there still, oldest first.

    Raises:
        InvalidRequestError: There is no such stream.
        CorruptionError: Its files are damaged.
    """
    files = read_stream(Path(root), name, is_whole=False)
    return [one for one in files.settings.archived if _place(files.directory, one) is not None]


def archived_lineages(root: str | PathLike[str], name: str) -> frozenset[str]:
    """Return the lineages of logs that were replaced, whether their data is there or not.

    Raises:
        InvalidRequestError: There is no such stream.
        CorruptionError: Its files are damaged.
    """
    files = read_stream(Path(root), name, is_whole=False)
    return frozenset(one.lineage for one in files.settings.archived)


def archived_shard_directory(
    root: str | PathLike[str], name: str, archived: ArchivedShard
) -> Path | None:
    """Return where an archived log lies, None if it was removed."""
    return _place(Path(root) / name, archived)


def read_archived(root: Path, name: str, lineage: str) -> StreamFiles:
    """Return the files of a stream as if an archived log were its only shard.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        lineage: The log's lineage, or what it begins with.

    Raises:
        InvalidRequestError: No archived log of this lineage is there, or several are.
    """
    files = read_stream(root, name, is_whole=False)
    logs = archived_shards(root, name)
    matching = [log for log in logs if lineage and log.lineage.startswith(lineage)]
    if len(matching) != 1:
        choices = ", ".join(log.lineage[:_LINEAGE_DIGITS] for log in logs) or "none"
        fault = "several archived logs begin with" if matching else "there is no archived log"
        message = f"{fault} {lineage!r}; there are {choices}"
        raise InvalidRequestError(message, stream=name)
    (log,) = matching
    place = _place(files.directory, log)
    assert place is not None, "it was there a moment ago"
    settings = replace(
        files.settings,
        lineages={log.shard: bytes.fromhex(log.lineage)},
        births={log.shard: log.born},
        archived=(),
        directories={log.shard: str(place.relative_to(files.directory))},
    )
    return replace(files, settings=settings, is_archived=True)


def remove_archived_shards(root: str | PathLike[str], name: str) -> Sequence[ArchivedShard]:
    """Remove the data of a stream's archived logs for good; they are remembered as archived.

    Raises:
        InvalidRequestError: There is no such stream.
        ShardLockedError: A log is being archived.
    """
    files = read_stream(Path(root).absolute(), name, is_whole=False, shards_open=())
    with taking_errors(files.directory, "removing archived shards"), locked(files.directory):
        files = files.reread()
        removed = []
        for archived in files.settings.archived:
            _move_aside(files.directory, archived)
            place = _place(files.directory, archived)
            if place is not None:
                shutil.rmtree(place)
                removed.append(archived)
        if removed:
            sync_directory(files.directory / _ARCHIVE)
    return removed


def finish_archiving(files: StreamFiles) -> None:
    """Move archived logs to where they belong, if somebody was killed before he did."""
    left = [one for one in files.settings.archived if _is_unmoved(files.directory, one)]
    if not left:
        return
    with taking_errors(files.directory, "archiving a shard"), locked(files.directory):
        for archived in left:
            _move_aside(files.directory, archived)


def _archived(files: StreamFiles, shard: int, clock: Clock) -> ArchivedShard:
    directory = files.shard_directory(shard)
    with closing(MarkerReader(directory / MARKER_FILE, clock)) as marker:
        end = marker.read().committed
    now_ms, lineage = clock.now_ns() // 10**6, files.lineage(shard).hex()
    return ArchivedShard(shard, lineage, files.born(shard), end, now_ms, directory.name)


def _replace(
    files: StreamFiles, archived: Sequence[ArchivedShard], starts: Mapping[int, int]
) -> None:
    """Steps 3 and 4."""
    settings = files.settings
    lineages, births = dict(settings.lineages), dict(settings.births)
    directories = dict(settings.directories)
    for shard, start in starts.items():
        lineages[shard] = new_lineage()
        directories[shard] = _lineage_name(shard, lineages[shard].hex())
        make_shard(files.directory / directories[shard], start, lineages[shard])
        births[shard] = start
    rewritten(
        files,
        replace(
            settings,
            lineages=lineages,
            births={shard: born for shard, born in births.items() if born},
            features=settings.features | {ARCHIVED_SHARDS},
            archived=(*_worth_keeping(files, starts), *archived),
            directories=directories,
        ),
    )


def _worth_keeping(files: StreamFiles, shards: Collection[int]) -> list[ArchivedShard]:
    """Return what to remember: the last logs of these shards, and all whose data is there."""
    last: list[ArchivedShard] = []
    for shard in shards:
        same = [log for log in files.settings.archived if log.shard == shard]
        last += same[1 - _REMEMBERED_MAX :]
    return [
        log
        for log in files.settings.archived
        if log.shard not in shards or log in last or _place(files.directory, log) is not None
    ]


def _clear_away(files: StreamFiles, shards: Iterable[int]) -> None:
    """Step 2: finish moving what was archived, and remove logs that nobody came to list."""
    for archived in files.settings.archived:
        _move_aside(files.directory, archived)
    for shard in shards:
        for left in sorted(files.directory.glob(_lineage_name(shard, "*"))):
            if left != files.shard_directory(shard):
                remove_unborn_shard(left, files.meta.name, "not listed in options.json")


def _move_aside(directory: Path, archived: ArchivedShard) -> None:
    """Step 5, unless it is done. Under the stream's lock."""
    if _is_unmoved(directory, archived):
        make_directories(directory / _ARCHIVE)
        move_directory(directory / archived.directory, _archive_place(directory, archived))


def _is_unmoved(directory: Path, archived: ArchivedShard) -> bool:
    # No other log ever has this name.
    return (directory / archived.directory).exists()


def _place(directory: Path, archived: ArchivedShard) -> Path | None:
    """Return where an archived log lies, None if it was removed."""
    with reading_errors(directory, "looking for archived shards"):
        for path in (directory / archived.directory, _archive_place(directory, archived)):
            if path.exists():
                return path
    return None


def _archive_place(directory: Path, archived: ArchivedShard) -> Path:
    return directory / _ARCHIVE / _lineage_name(archived.shard, archived.lineage)


def _lineage_name(shard: int, lineage: str) -> str:
    return f"{shard_directory(Path(), shard).name}~{lineage[:_LINEAGE_DIGITS]}"
