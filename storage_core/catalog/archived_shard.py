"""What options.json says of logs that others have replaced, and the names of shards' directories.

    shard-0003              the first log of a shard
    shard-0003~<lineage>    one that has replaced another

Whatever the file says, a name leads nowhere but to a directory of its own shard and its own log,
beside the file: it may have come from somewhere else, and archived logs are removed by it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_LINEAGE: Final = re.compile(r"[0-9a-f]{32}\Z")
_LINEAGE_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class ArchivedShard:
    """A log that another one has replaced.

    Attributes:
        shard: The shard's number.
        lineage: The random id of the log, in hex.
        born: The first address it could have.
        end: Its committed, when it was archived.
        archived_at_ms: When that was, by the wall clock.
        directory: The name of the directory that it had until then.
    """

    shard: int
    lineage: str
    born: int
    end: int
    archived_at_ms: int
    directory: str


def shard_name(shard: int) -> str:
    """Return the name of the directory of a shard's first log."""
    return f"shard-{shard:04d}"


def log_name(shard: int, lineage: str) -> str:
    """Return the name of the directory of a log that has replaced another; `lineage` in hex."""
    return f"{shard_name(shard)}~{lineage[:_LINEAGE_DIGITS]}"


def decode_archived(
    entries: Iterable[Mapping[str, Any]], lineages: Iterable[bytes]
) -> tuple[ArchivedShard, ...]:
    """Return the archived logs that a document lists.

    Args:
        entries: What it says of each.
        lineages: Those of the logs that are in force.

    Raises:
        ValueError: One is nothing that was written, or its directory would not be its own.
    """
    archived = tuple(ArchivedShard(**entry) for entry in entries)
    in_force = {lineage.hex() for lineage in lineages}
    for log in archived:
        numbers = (log.shard, log.born, log.end, log.archived_at_ms)
        if any(type(number) is not int or number < 0 for number in numbers):
            message = f"archived shard {log.shard!r:.60}: its numbers are none"
            raise ValueError(message)
        if type(log.lineage) is not str or not _LINEAGE.match(log.lineage):
            message = f"archived lineage {log.lineage!r:.60}"
            raise ValueError(message)
        if log.lineage in in_force:
            message = f"the log {log.lineage} is archived and in force"
            raise ValueError(message)
        check_directory(log.shard, log.lineage, log.directory)
    return archived


def decode_directories(
    names: Mapping[str, Any], lineages: Mapping[int, bytes]
) -> Mapping[int, str]:
    """Return where shards lie that have replaced others.

    Raises:
        ValueError: A shard is none, or its directory would not be its own.
    """
    directories = {int(shard): name for shard, name in names.items()}
    for shard, name in directories.items():
        check_directory(shard, lineages[shard].hex(), name)
    return directories


def check_directory(shard: int, lineage: str, name: object) -> None:
    """Refuse a name that is not that of a log's own directory.

    Raises:
        ValueError: It is another.
    """
    if name not in (shard_name(shard), log_name(shard, lineage)):
        message = f"shard {shard} in {name!r:.60}, which is no directory of its own"
        raise ValueError(message)
