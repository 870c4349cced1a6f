"""What goes from this machine once the stream's own lake has it: files of parts, archived logs.

Only whoever may write where they lie lets them go.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from storage_core.errors import ShardlogError
from storage_core.format.part_entry import ShardParts
from storage_core.lake.absent.lake_parts import LakeParts, lake_cache
from storage_core.lake.absent.local_files import let_files_go
from storage_core.lake.beginning.covered_logs import remove_covered_logs
from storage_core.lake.maintenance.unread import FilePlace, OnUnread, one_file_alone
from storage_core.lake.publishing.report import ShardPublished
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget
from storage_core.parts.snapshot import Part
from storage_core.reader import StreamReader


def with_files_gone(  # noqa: PLR0913 - how a call is bounded and followed
    reader: StreamReader,
    target: LakeTarget,
    table: LakeTable,
    published: ShardPublished,
    bytes_max: int,
    on_unread: OnUnread,
) -> ShardPublished:
    """Let the files of a shard's parts go that the loaded table has; return how many did too.

    Args:
        reader: The stream.
        target: Where its table is.
        table: The table.
        published: What was published of the shard.
        bytes_max: After how many bytes to leave the rest for another call.
        on_unread: Called with why the store does not give a file, though it gives others.

    Raises:
        CorruptionError: The store has another file than the part list says.
        UnavailableError: The store cannot be read now, or the disk refuses.
    """
    files, shard = reader.rows.shards.files, published.shard
    if reader.options.keep_local is None or not os.access(files.shard_directory(shard), os.W_OK):
        return published
    lake = LakeParts(target, lake_cache(files.directory.parent))

    def prove(part: Part) -> None:
        with one_file_alone(table, FilePlace.of_part(part)):
            lake.prove(part)

    named = table.files(shard)
    gone = let_files_go(reader, shard, named, prove, on_unread, bytes_max=bytes_max)
    return replace(published, files_gone=gone.parts, is_whole=gone.is_whole)


def with_logs_removed(
    reader: StreamReader,
    table: LakeTable,
    published: ShardPublished,
    parts_of: Callable[[int], ShardParts],
    on_progress: Callable[[], None],
) -> ShardPublished:
    """Remove archived logs of a shard of which the table has all rows; return how many too.

    What cannot be told now the next publish comes to again.
    """
    if not os.access(reader.rows.shards.files.directory, os.W_OK):
        return published
    shard = published.shard
    with suppress(ShardlogError):
        entries = parts_of(shard).entries
        removed, staying = remove_covered_logs(reader, table, shard, entries, on_progress)
        return replace(published, logs_removed=removed, logs_kept=staying)
    return published
