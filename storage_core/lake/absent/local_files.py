"""Files of parts that the lake has: they go from this machine as `keep_local` says, and come back.

The part list stays as it is, and readers bring what they need of such a part from the lake
(lake_parts.py). Any process may do it that may write in the shard's directory, beside the owner and
its readers: who has a file open reads on, and who opens it later finds it in the lake.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from storage_core.catalog.options import StreamOptions
from storage_core.format.keys import INT64_MAX
from storage_core.format.part_entry import PartEntry, visible_file_name
from storage_core.format.shard_state import ShardState
from storage_core.lake.image_names import whole_image_name
from storage_core.lake.maintenance.unread import OnUnread, UnreadFileError
from storage_core.parts.part_home import is_here
from storage_core.parts.snapshot import Part, listed_parts, visible_directory
from storage_core.platform.clock import Clock, SystemClock
from storage_core.platform.durable_file import make_directories, sync_directory, taking_errors
from storage_core.reader import StreamReader

_NS_A_MS: Final = 1_000_000
# Each file that the store does not give takes some requests, behind each commit of a worker.
_UNREAD_MAX: Final = 3
_CLOCK: Final = SystemClock()


@dataclass(frozen=True, slots=True)
class LocalFilesGone:
    """The files of a shard that went from this machine.

    Attributes:
        parts: The parts whose files they were.
        bytes: What they took.
        is_whole: Whether no other file may go; else the call ended at its limit.
    """

    parts: int = 0
    bytes: int = 0
    is_whole: bool = True


def let_files_go(  # noqa: PLR0913 - what a call goes by
    reader: StreamReader,
    shard: int,
    table_files: Mapping[str, int],
    prove: Callable[[Part], None],
    on_unread: OnUnread,
    clock: Clock = _CLOCK,
    *,
    bytes_max: int = INT64_MAX,
) -> LocalFilesGone:
    """Delete the files of a shard's parts that the lake has, and that are old enough.

    1. Choose: parts that were made `keep_local` ago; of a stream with `keep_hot` those whose blocks
       were trimmed, since a trim reads them. The table has their file, as it lies: those that were
       rewritten for it stay.
    2. Prove: the store's file is read whole, and is that of the part list. Once in its life: what
       goes is the only other copy of its rows, and a store tells of a file that it has damaged
       when that is read. The end of it is kept here for who reads the part next. Where the store
       does not give one, and gives others, the local file stays, and the next may go; where it does
       not give some, a call that is bounded ends.
    3. Delete: the name that other programs see, then the file.

    A crash leaves the rest for the next call.

    Args:
        reader: The stream, opened by the path of its root.
        shard: The shard's number.
        table_files: The files of the shard in a loaded version of its table, with their sizes.
        prove: Sees that the store's file of a part is that of the part list, and keeps its end.
        on_unread: Called with why the store does not give one.
        clock: Tells how old parts are.
        bytes_max: After how many bytes to leave the rest for another call.

    Raises:
        CorruptionError: The store has another file than the part list says; the local one stays.
        UnavailableError: The store cannot be read now, or the disk refuses.
        InvalidRequestError: This process may not write there.
    """
    if reader.options.keep_local is None:
        return LocalFilesGone()
    directory = reader.rows.shards.files.shard_directory(shard)
    shard_reader = reader.shard(shard)
    state = shard_reader.state()
    entries = [
        entry
        for entry in shard_reader.parts().entries
        if _may_go(entry, state, reader.options, clock)
    ]
    parts, size, unread = 0, 0, 0
    for part in _published(listed_parts(shard, directory, entries), table_files):  # 1
        if size >= bytes_max:
            return LocalFilesGone(parts, size, is_whole=False)
        try:
            prove(part)  # 2
        except UnreadFileError as error:
            on_unread(error)
            unread += 1
            if bytes_max < INT64_MAX and unread == _UNREAD_MAX:
                break
            continue
        delete_local(part)  # 3
        parts, size = parts + 1, size + part.entry.size
    return LocalFilesGone(parts, size)


def is_to_go(reader: StreamReader, part: Part, clock: Clock = _CLOCK) -> bool:
    """Tell whether the file of a part is to go from this machine once the lake has it."""
    return _may_go(part.entry, reader.shard(part.shard).state(), reader.options, clock)


def _may_go(entry: PartEntry, state: ShardState, options: StreamOptions, clock: Clock) -> bool:
    if options.keep_local is None:
        return False
    made_before_ms = clock.now_ns() // _NS_A_MS - options.keep_local // timedelta(milliseconds=1)
    is_hot = options.keep_hot is not None and entry.last >= state.trimmed
    return entry.sealed_at_ms <= made_before_ms and not is_hot


def _published(parts: Iterator[Part], table_files: Mapping[str, int]) -> Iterator[Part]:
    """Yield the parts whose files are here, and in the table as they lie."""
    for part in parts:
        path = whole_image_name(part.shard, part.entry)
        if table_files.get(path) == part.entry.size and is_here(part):
            yield part


def delete_local(part: Part) -> None:
    """Delete the file of a part from this machine, and the name that other programs see.

    Raises:
        InvalidRequestError: This process may not.
        UnavailableError: The disk refuses.
    """
    visible = visible_directory(part.path.parent.parent)
    with taking_errors(part.path, "the file of a published part cannot be removed"):
        # IMPORTANT: the other name first: its part has rows that other programs see twice, were it
        # left when the part is merged.
        (visible / visible_file_name(part.entry.number)).unlink(missing_ok=True)
        part.path.unlink(missing_ok=True)


def link_local(reader: StreamReader, part: Part, copy: Path) -> None:
    """Let a part whose file is not on this machine have that of another log of its stream.

    Durable on return. Nothing happens where it has one meanwhile.

    Args:
        reader: The stream, opened by the path of its root.
        part: The part.
        copy: The other log's file, whose digest is that of the part list.

    Raises:
        InvalidRequestError: This process may not write there.
        UnavailableError: The disk refuses.
    """
    directory = part.path.parent
    with taking_errors(part.path, "taking the file of a part from an archived log"):
        make_directories(directory)
        # A crash in between leaves a name for other programs alone, which the next call replaces.
        show_local(reader, part, copy)
        with suppress(FileExistsError):
            os.link(copy, part.path)
        sync_directory(directory)


def show_local(reader: StreamReader, part: Part, file: Path) -> None:
    """Let other programs see the file that a part has on this machine, and no other."""
    visible = visible_directory(part.path.parent.parent)
    make_directories(visible)
    name = visible / visible_file_name(part.entry.number)
    name.unlink(missing_ok=True)
    os.link(file, name)
    # IMPORTANT: behind it. Who merges parts changes the list first, and removes names then.
    if part.entry not in reader.shard(part.shard).parts().entries:
        name.unlink(missing_ok=True)
