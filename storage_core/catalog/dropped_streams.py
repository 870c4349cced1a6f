"""Streams that were dropped: set aside under the root, or removed, and known as dropped.

    <root>/~dropped/<stream>/drops.json     the last drops of a stream of this name, and those
                                            whose directory lies there, with the lineage of
                                            every shard that went
    <root>/~dropped/<stream>/<time>-<id>/   the stream's directory as it was, if it was kept

The rename is the drop: before it the stream is whole where it was, after it the name is free.
`drops.json` is written first, so that whoever finds a dropped shard's lineage somewhere else (a
worker, beside its group's offset) can tell data that was dropped here from data that lies
elsewhere. Moving a kept directory back undoes the drop. A drop is forgotten once its directory is
gone and so many others of the name came after it.
"""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, Final

from storage_core.catalog.changes import locked
from storage_core.catalog.document_format import check_format, format_field
from storage_core.catalog.root_file import DROPPED_DIRECTORY, check_root
from storage_core.catalog.stream_file import StreamFiles, check_name, read_stream
from storage_core.engine.environment import Environment
from storage_core.engine.writer_lock import WriterLock
from storage_core.platform.clock import Clock
from storage_core.platform.durable_file import (
    encode_document,
    make_directories,
    move_directory,
    read_document,
    reading_errors,
    replace_durably,
    taking_errors,
)

_DROPS_FILE: Final = "drops.json"
_DROPS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Drop:
    """A drop of a stream.

    Attributes:
        dropped_at_ms: When, by the wall clock.
        incarnation: The stream's random id.
        lineages: The random id of each shard's log, in hex, those of archived ones among them.
    """

    dropped_at_ms: int
    incarnation: str
    lineages: tuple[str, ...]


def drop_stream(
    root: str | PathLike[str],
    name: str,
    *,
    keep: bool = True,
    environment: Environment | None = None,
) -> Path | None:
    """Take a stream away; durable on return.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        keep: Whether its directory is set aside; it is removed otherwise.
        environment: Time, for tests.

    Returns:
        Where the directory lies now; None if it was removed.

    Raises:
        InvalidRequestError: There is no such stream.
        ShardLockedError: A writer holds one of its shards; nothing was changed.
        CorruptionError: The stream's files are damaged.
    """
    clock = (environment or Environment()).clock
    # A stream may be dropped because shards of it are gone; nobody holds those.
    files = read_stream(Path(root), name, is_whole=False, shards_open=())
    with taking_errors(files.directory, "dropping the stream"), ExitStack() as held:
        held.enter_context(locked(files.directory))
        # Nobody makes shards meanwhile.
        files = files.reread()
        for shard in sorted(files.settings.lineages):
            directory = files.shard_directory(shard)
            if directory.exists():
                held.enter_context(
                    WriterLock.acquire(directory, clock, stream=files.meta.name, shard=shard)
                )
        place = _move_aside(files, clock)
    if keep:
        return place
    with taking_errors(place, "removing the dropped stream"):
        shutil.rmtree(place)
    return None


def dropped_streams(root: str | PathLike[str], name: str) -> Sequence[Drop]:
    """Return the last drops of streams of a name and all that lie there still, oldest first.

    Raises:
        CorruptionError: The file that tells of them is damaged.
    """
    check_name(name)
    check_root(Path(root))
    with reading_errors(Path(root), "looking for dropped streams"):
        return _read_drops(Path(root) / DROPPED_DIRECTORY / name)


def _move_aside(files: StreamFiles, clock: Clock) -> Path:
    """Note the drop, then move the stream's directory; return where it lies."""
    now_ns, meta = clock.now_ns(), files.meta
    aside = files.directory.parent / DROPPED_DIRECTORY / meta.name
    make_directories(aside)
    lineages = (
        *(lineage.hex() for lineage in files.settings.lineages.values()),
        *(archived.lineage for archived in files.settings.archived),
    )
    drop = Drop(now_ns // 10**6, meta.incarnation, lineages)
    _write_drops(aside, [*_worth_keeping(aside, meta.incarnation), drop])
    moment = datetime.fromtimestamp(now_ns // 10**9, UTC)
    place = aside / f"{moment:%Y%m%dT%H%M%SZ}-{_short(meta.incarnation)}"
    # IMPORTANT: after the note; what is gone from its place is known as dropped.
    move_directory(files.directory, place)
    return place


def _worth_keeping(aside: Path, incarnation: str) -> list[Drop]:
    """Return what to remember beside one more drop: the last ones, and what lies there still."""
    # A drop that was cut short or undone is told by the one that follows.
    drops = [drop for drop in _read_drops(aside) if drop.incarnation != incarnation]
    incarnations_aside = {path.name.rpartition("-")[2] for path in aside.iterdir() if path.is_dir()}
    older, last = drops[: 1 - _DROPS_MAX], drops[1 - _DROPS_MAX :]
    return [*(drop for drop in older if _short(drop.incarnation) in incarnations_aside), *last]


def _short(incarnation: str) -> str:
    return incarnation[:8]


def _write_drops(aside: Path, drops: Sequence[Drop]) -> None:
    fields = {**format_field("drops"), "drops": [asdict(drop) for drop in drops]}
    replace_durably(aside / _DROPS_FILE, encode_document(fields))


def _read_drops(aside: Path) -> list[Drop]:
    path = aside / _DROPS_FILE
    try:
        document: dict[str, Any] = read_document(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    check_format(document, "drops", path)
    return [
        Drop(drop["dropped_at_ms"], drop["incarnation"], tuple(drop["lineages"]))
        for drop in document["drops"]
    ]
