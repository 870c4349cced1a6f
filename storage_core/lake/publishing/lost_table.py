"""A table that this root has published and that is not there any more: it is lost, and not new.

Where there is no table, the stream was never published there, or its table is lost: a disk is not
mounted, or somebody deleted it. Who takes the second for the first says that all is well, or makes
an empty table in the place of one that may come back. A root knows that it has published by its
notes (notes.py), the newest of each shard, and by parts whose files it let go, or began without.

Whoever loads a stream's table to publish, compare or begin from it asks here. Any process may.
"""

from storage_core.catalog.stream_file import StreamFiles
from storage_core.errors import CorruptionError, UnavailableError
from storage_core.lake.app_id import stream_of, stream_of_files
from storage_core.lake.publishing.followed import follower_of
from storage_core.lake.publishing.notes import was_published
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget
from storage_core.parts.part_home import is_here
from storage_core.parts.snapshot import listed_parts
from storage_core.reader import StreamReader


def open_table(
    reader: StreamReader, target: LakeTarget, *, accepts_loss: bool = False
) -> LakeTable | None:
    """Load the table of a stream; None where this root has published none there.

    Args:
        reader: The stream, opened by the path of its root.
        target: Where the table is.
        accepts_loss: Whether one that is gone is none, where all files of parts are known to be
            here.

    Raises:
        UnavailableError: There is none though this root has published it, or the store does not
            answer.
        ShardlogError: As `LakeTable.open` raises.
    """
    stream, files = stream_of(reader), reader.rows.shards.files
    table = LakeTable.open(target, stream)
    if table is not None:
        return table
    is_own = target.is_lake_of(reader.options.lake)
    is_only_copy = is_own and _has_absent_parts(reader, counts_unread=accepts_loss)
    if not is_only_copy and (accepts_loss or not _is_noted(files, target)):
        return None
    # Another process may have made it, and have published, since it was looked for.
    table = LakeTable.open(target, stream)
    if table is None:
        raise _lost(files, target, is_only_copy=is_only_copy)
    return table


def open_noted_table(files: StreamFiles, target: LakeTarget) -> LakeTable | None:
    """Load the table of a stream whose logs may be damaged: its notes alone are asked.

    Raises:
        UnavailableError: There is none though this root has published it, or the store does not
            answer.
        ShardlogError: As `LakeTable.open` raises.
    """
    stream = stream_of_files(files)
    table = LakeTable.open(target, stream)
    if table is not None or not _is_noted(files, target):
        return table
    table = LakeTable.open(target, stream)
    if table is None:
        raise _lost(files, target, is_only_copy=False)
    return table


def _lost(files: StreamFiles, target: LakeTarget, *, is_only_copy: bool) -> UnavailableError:
    name = files.meta.name
    alter = f"`shardlog alter {files.directory.parent} {name} lake=…`"
    if is_only_copy:
        reason = "which may have had the only file of some parts"
        way = f"where there is a copy of all of it, {alter} names that place"
    else:
        reason = "where this root has published"
        publish = f"`shardlog lake publish {files.directory.parent} {name} --create-table`"
        way = f"where it is gone for good, {publish} makes it anew, or {alter} names another place"
    message = (
        f"there is no table at {target.uri}, {reason}: mount its disk, or restore it; {way} "
        "(docs/LAKE.md#disaster-drill)"
    )
    return UnavailableError(message, stream=name)


def _is_noted(files: StreamFiles, target: LakeTarget) -> bool:
    return was_published(files.directory.parent, files.meta.name, target.uri)


def _has_absent_parts(reader: StreamReader, *, counts_unread: bool) -> bool:
    """Tell whether the lake may have the only file of a part.

    A part whose file is not here is lost where nothing lets files go, and the log began from no
    table.

    Args:
        reader: The stream.
        counts_unread: Whether a shard whose log cannot be read may have such a part.
    """
    shards, lets_go = reader.rows.shards, reader.options.keep_local is not None
    if counts_unread and set(shards.opened()) != set(shards.files.settings.lineages):
        return True
    for shard in shards.opened():
        follower = follower_of(reader, shard)
        try:
            entries = follower.parts().entries
            has_predecessor = follower.state().lake_predecessor is not None
        except (CorruptionError, UnavailableError):
            if counts_unread:
                return True
            continue
        parts = listed_parts(shard, shards.files.shard_directory(shard), entries)
        if (lets_go or has_predecessor) and not all(map(is_here, parts)):
            return True
    return False
