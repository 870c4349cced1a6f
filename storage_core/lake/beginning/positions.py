"""Where a table stands beside the logs of a root: how far each shard is published, and by whom."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.errors import InvalidRequestError
from storage_core.lake.app_id import owner_number
from storage_core.lake.options_file import lake_options
from storage_core.lake.publishing.lost_table import open_noted_table
from storage_core.lake.publishing.ownership import log_of
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget, lake_target
from storage_core.reader import StreamReader


@dataclass(frozen=True, slots=True)
class LakePosition:
    """Where the table of a stream stands in one shard.

    Attributes:
        shard: The shard's number.
        published: The exclusive end of its rows in the table.
        is_own: Whether the log that this root has of it publishes it, or may: it is the one that
            the table names as owner, or began from that one's rows; or the table names none.
    """

    shard: int
    published: int
    is_own: bool


def lake_positions(
    root: str | PathLike[str],
    name: str,
    shards: Collection[int],
    target: LakeTarget | None = None,
) -> dict[int, LakePosition]:
    """Return where the table of a stream stands; nothing of shards that were never published.

    The table is opened once for all of them; where there is none, nothing is returned.

    Args:
        root: The directory that holds the streams.
        name: The stream, whose shards are the partitions of an origin.
        shards: The shards, whether this root has them or not.
        target: Where the table is, as the stream's option `lake` says; if None by that option.

    Raises:
        InvalidRequestError: There is no such stream, or it has no lake, or no origin.
        ForeignDataError: What lies there is another stream's table, or none of shardlog.
        UnavailableError: The store does not answer.
    """
    files, _, table = origin_table(root, name, target)
    if table is None:
        return {}
    ends = {shard: table.published(shard) for shard in sorted(set(shards))}
    published = {shard: end for shard, end in ends.items() if end is not None}
    own = _own_shards(files, published, table)
    return {shard: LakePosition(shard, end, shard in own) for shard, end in published.items()}


def _own_shards(files: StreamFiles, shards: Iterable[int], table: LakeTable) -> set[int]:
    """Return the shards whose logs here publish them, or may."""
    lineages, own, unlike = files.settings.lineages, set(), []
    for shard in shards:
        owner = table.owner(shard)
        if shard not in lineages:
            continue
        if owner is None or owner == owner_number(lineages[shard].hex()):
            own.add(shard)
        else:
            unlike.append(shard)
    if unlike:
        with StreamReader.open(files.directory.parent, files.meta.name) as reader:
            logs = [log_of(reader, shard, table) for shard in unlike]
        own.update(log.shard for log in logs if log.may_publish(table.owner(log.shard)))
    return own


def origin_table(
    root: str | PathLike[str], name: str, target: LakeTarget | None
) -> tuple[StreamFiles, LakeTarget, LakeTable | None]:
    """Return a stream whose shards are the partitions of an origin, and its table, if it is made.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        target: Where the table is, as the stream's option `lake` says; if None by that option.

    Raises:
        InvalidRequestError: There is no such stream, or it has no lake, or no origin.
        ForeignDataError: What lies there is another stream's table, or none of shardlog.
        UnavailableError: The store does not answer.
    """
    files = _origin_stream(root, name)
    place = _own_target(files, target)
    return files, place, open_noted_table(files, place)


def _origin_stream(root: str | PathLike[str], name: str) -> StreamFiles:
    """Return the files of a stream whose shards are the partitions of an origin.

    Raises:
        InvalidRequestError: There is no such stream, or it has no origin.
    """
    files = read_stream(Path(root).absolute(), name, is_whole=False, shards_open=())
    if files.meta.origin is None:
        message = (
            "only a stream that copies a topic begins from its lake: of this one nobody else has "
            "the rows that were not published; restore it from a backup"
        )
        raise InvalidRequestError(message, stream=name)
    return files


def _own_target(files: StreamFiles, target: LakeTarget | None) -> LakeTarget:
    """Return where the table of a stream is.

    Raises:
        InvalidRequestError: The stream has no lake, or another one.
    """
    uri = files.settings.options.lake
    if uri is None:
        message = "the stream has no lake: set its option `lake`"
        raise InvalidRequestError(message, stream=files.meta.name)
    own = lake_target(uri, lake_options())
    if target is None:
        return own
    if target.uri != own.uri:
        # Its rows are read from there for as long as it is.
        message = f"the lake of the stream is {own.uri}, and a log begins from no other"
        raise InvalidRequestError(message, stream=files.meta.name)
    return target
