"""Replacing the log of a shard by a new one: the old one is archived under its lineage.

    <stream>/shard-0003/                        the first log of a shard
    <stream>/shard-0003~<lineage>/              a log that has replaced one
    <stream>/~archived/shard-0003~<lineage>/    an archived log, whole, as it was; with a file
                                                `copy` it may go once others have all of its rows

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

from storage_core.catalog.archived_shard import ArchivedShard, log_name
from storage_core.catalog.births import check_starts, make_shard, new_lineage, remove_unborn_shard
from storage_core.catalog.changes import locked, rewritten
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.catalog.stream_meta import ARCHIVED_SHARDS
from storage_core.engine.commit_marker import MARKER_FILE, MarkerReader
from storage_core.engine.environment import Environment
from storage_core.engine.left_config import remove_left_config
from storage_core.engine.writer_lock import WriterLock
from storage_core.errors import ForeignDataError, InvalidRequestError
from storage_core.platform.clock import Clock, SystemClock
from storage_core.platform.durable_file import (
    make_directories,
    move_directory,
    reading_errors,
    sync_directory,
    taking_errors,
)

_ARCHIVE: Final = "~archived"
# Lies in a log of which others have all rows, or will; so it goes then.
_COPY_FILE: Final = "copy"
# Lies in a log that is being removed, before anything of it goes.
_GOING_FILE: Final = "going"
# Of logs that were removed so many are remembered for each shard.
_REMEMBERED_MAX: Final = 16
_LOOKING: Final = "looking for archived shards"
# A lineage is told by so many of its digits.
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
        listed = {n: at for n, at in optional.items() if n in files.settings.lineages}
        starts = {**starts, **listed}
        clear_away(files, starts)
        for shard in sorted(starts):
            directory = files.shard_directory(shard)
            lock = WriterLock.acquire(directory, clock, stream=name, shard=shard, purpose="a reset")
            held.enter_context(lock)
        archived = [archived_log(files, shard, clock) for shard in sorted(starts)]
        _replace(files, archived, starts)
        for log in archived:
            move_aside(files.directory, log)
    return archived


def stream_having(directory: Path) -> Path:
    """Return the directory of a stream, given it or the one that has its archived logs."""
    return directory.parent if directory.name == _ARCHIVE else directory


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
    place = _place(files.directory, log) or _archive_place(files.directory, log)
    settings = replace(
        files.settings,
        lineages={log.shard: bytes.fromhex(log.lineage)},
        births={log.shard: log.born},
        archived=(),
        directories={log.shard: str(place.relative_to(files.directory))},
    )
    return replace(files, settings=settings, is_archived=True)


def mark_copy(directory: Path) -> None:
    """Say of a log that is being archived that other logs have its rows, or will."""
    (directory / _COPY_FILE).touch()
    sync_directory(directory)


def unmark_copy(place: Path) -> None:
    """Let an archived log stay: other logs lack some of its rows.

    Raises:
        InvalidRequestError: This process may not write there.
        UnavailableError: The disk refuses.
    """
    with taking_errors(place, "letting an archived log stay"):
        (place / _COPY_FILE).unlink(missing_ok=True)


def is_going(place: Path) -> bool:
    """Tell whether somebody has begun to remove an archived log, and was killed before the end.

    Raises:
        InvalidRequestError: This process may not read there.
        UnavailableError: The disk refuses.
    """
    with reading_errors(place, _LOOKING):
        return (place / _GOING_FILE).exists()


def archived_copies(
    root: str | PathLike[str], name: str, shard: int
) -> Sequence[tuple[ArchivedShard, Path]]:
    """Return the archived logs of a shard that are marked as copies, with where they lie.

    Raises:
        InvalidRequestError: There is no such stream, or this process may not read there.
        CorruptionError: Its files are damaged.
        UnavailableError: The disk refuses.
    """
    files = read_stream(Path(root), name, is_whole=False)
    places = [
        (log, _archive_place(files.directory, log))
        for log in files.settings.archived
        if log.shard == shard
    ]
    with reading_errors(files.directory, _LOOKING):
        return [(log, place) for log, place in places if (place / _COPY_FILE).exists()]


def remove_archived_shards(root: str | PathLike[str], name: str) -> Sequence[ArchivedShard]:
    """Remove the data of a stream's archived logs for good; they are remembered as archived.

    Raises:
        InvalidRequestError: There is no such stream.
        ForeignDataError: What lies in the place of one is another log; it stays.
    """
    return remove_archived_logs(root, name, None)


def remove_archived_logs(
    root: str | PathLike[str], name: str, lineages: Collection[str] | None
) -> Sequence[ArchivedShard]:
    """Remove the archived logs of some lineages (None: all), as `remove_archived_shards` does.

    Raises:
        InvalidRequestError: There is no such stream.
        ForeignDataError: What lies in the place of one is another log; it stays.
    """
    files = read_stream(Path(root).absolute(), name, is_whole=False, shards_open=())
    with taking_errors(files.directory, "removing archived shards"), locked(files.directory):
        files = files.reread()
        removed = []
        for archived in files.settings.archived:
            move_aside(files.directory, archived)
            place = _place(files.directory, archived)
            is_wanted = lineages is None or archived.lineage in lineages
            if place is not None and is_wanted:
                _remove(files.directory, place, archived)
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
            move_aside(files.directory, archived)


def archived_log(files: StreamFiles, shard: int, clock: Clock) -> ArchivedShard:
    """Return what is to be remembered of the log of a shard that is being replaced."""
    directory = files.shard_directory(shard)
    with closing(MarkerReader(directory / MARKER_FILE, clock)) as marker:
        end = marker.read().committed
    now_ms, lineage = clock.now_ns() // 10**6, files.lineage(shard).hex()
    return ArchivedShard(shard, lineage, files.born(shard), end, now_ms, directory.name)


def _replace(
    files: StreamFiles, archived: Sequence[ArchivedShard], starts: Mapping[int, int]
) -> None:
    """Steps 3 and 4."""
    lineages = {shard: new_lineage() for shard in starts}
    for shard, start in starts.items():
        directory = files.directory / log_name(shard, lineages[shard].hex())
        make_shard(directory, start, lineages[shard])
    put_in_place(files, archived, lineages, starts)


def put_in_place(
    files: StreamFiles,
    archived: Sequence[ArchivedShard],
    lineages: Mapping[int, bytes],
    births: Mapping[int, int],
) -> StreamFiles:
    """Let options.json name new logs, whose directories are there, and remember the old ones.

    Under the stream's lock. Durable on return.
    """
    settings = files.settings
    directories = {shard: log_name(shard, lineages[shard].hex()) for shard in births}
    all_births = {**settings.births, **births}
    return rewritten(
        files,
        replace(
            settings,
            lineages={**settings.lineages, **lineages},
            births={shard: born for shard, born in all_births.items() if born},
            features=settings.features | {ARCHIVED_SHARDS},
            archived=(*_worth_keeping(files, births), *archived),
            directories={**settings.directories, **directories},
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


def clear_away(files: StreamFiles, shards: Iterable[int]) -> None:
    """Step 2: finish moving what was archived, and remove logs that nobody came to list."""
    for archived in files.settings.archived:
        move_aside(files.directory, archived)
    for shard in shards:
        for left in sorted(files.directory.glob(log_name(shard, "*"))):
            if left != files.shard_directory(shard):
                remove_unborn_shard(left, files.meta.name, "not listed in options.json")


def move_aside(directory: Path, archived: ArchivedShard) -> None:
    """Step 5, unless it is done. Under the stream's lock.

    Raises:
        ForeignDataError: What lies there is another log.
    """
    left = directory / archived.directory
    if _is_unmoved(directory, archived):
        make_directories(directory / _ARCHIVE)
        _refuse_others(directory, left, archived)
        move_directory(left, _archive_place(directory, archived))
    elif left.exists():
        # Another process opened the log for reading while it was moved.
        remove_left_config(left)


def _remove(directory: Path, place: Path, archived: ArchivedShard) -> None:
    """Remove an archived log, whose marker goes last: until then it tells which log it is.

    What says that it is a copy, and that it is going, outlasts its rows: what is left of a removal
    is told from a log that has lost its store otherwise.

    Raises:
        ForeignDataError: What lies there is another log; it stays.
    """
    is_almost_gone = not any(place.iterdir())
    if not is_almost_gone:
        _refuse_others(directory, place, archived)
        (place / _GOING_FILE).touch()
        sync_directory(place)
    entries = sorted(place.iterdir())
    directories = [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
    for entry in directories:
        shutil.rmtree(entry)
    for entry in entries:
        if entry not in directories and entry.name != MARKER_FILE:
            entry.unlink()
    (place / MARKER_FILE).unlink(missing_ok=True)
    place.rmdir()


def _refuse_others(directory: Path, place: Path, archived: ArchivedShard) -> None:
    """Raise unless a place is the stream's own directory of a log that is not in force.

    Raises:
        ForeignDataError: It is something else.
    """
    fault = None
    # The stream's directory itself may be a link, as whoever keeps it elsewhere has made it.
    if place.is_symlink() or (directory / _ARCHIVE).is_symlink():
        fault = "it is reached through a symbolic link"
    elif not place.is_dir() or place.parent not in (directory, directory / _ARCHIVE):
        fault = "it is no directory of the stream's own"
    else:
        with closing(MarkerReader(place / MARKER_FILE, SystemClock())) as marker:
            if marker.read().lineage.hex() != archived.lineage:
                fault = f"it is another log than {archived.lineage}"
    if fault is not None:
        message = f"an archived log is not touched: {fault}"
        raise ForeignDataError(message, stream=directory.name, shard=archived.shard, path=place)


def _is_unmoved(directory: Path, archived: ArchivedShard) -> bool:
    # No other log ever has this name. Without a marker it is what a reader has left there.
    return (directory / archived.directory / MARKER_FILE).exists()


def _place(directory: Path, archived: ArchivedShard) -> Path | None:
    """Return where an archived log lies, None if it was removed."""
    with reading_errors(directory, _LOOKING):
        if _is_unmoved(directory, archived):
            return directory / archived.directory
        path = _archive_place(directory, archived)
        return path if path.exists() else None


def _archive_place(directory: Path, archived: ArchivedShard) -> Path:
    return directory / _ARCHIVE / log_name(archived.shard, archived.lineage)
