"""What a stream's table, its store or this machine has lost, made good: `shardlog lake repair`.

1. Compare: the table with the parts, and the files of both, as `shardlog lake check` does; files
   that have other bytes of the same number are found by reading alone.
2. Of parts that are damaged here, or that nobody finds: bring the file from the store, from an
   archived log of the stream, or from another root, whichever has the digest of the part list.
3. Publish: what the table or the store lacks is uploaded again, and heads runs are written anew.
   What is sealed and not published goes along.
4. Compare again: what is wrong still nobody has whom this call may ask.

A shard whose log cannot be read keeps no other from being repaired, and is told. Nor does a file
that the store does not give, while it gives others.

Nothing is made up: a file is what its digest says, or it stays as it is and is told. A crash leaves
what the next call finds. Any process may repair, beside the owner and beside readers.
"""

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from storage_core.errors import ShardlogError
from storage_core.lake.absent.lake_parts import LakeParts, lake_cache
from storage_core.lake.image_names import image_of_path
from storage_core.lake.maintenance.comparison import check_lake
from storage_core.lake.maintenance.unread import UnreadFileError
from storage_core.lake.publish import scratch_directory, target_of
from storage_core.lake.publishing.consent import Consent
from storage_core.lake.publishing.lost_table import open_table
from storage_core.lake.publishing.publication import Publication
from storage_core.lake.publishing.report import ShardPublished
from storage_core.lake.publishing.rounds import Rounds, publish_in_rounds
from storage_core.lake.readable_shards import readable_shards
from storage_core.lake.repair.local_repair import LocalRepair
from storage_core.lake.repair.part_copies import PartCopies
from storage_core.lake.repair.report import LakeRepair, RepairedFile
from storage_core.lake.target import LakeTarget
from storage_core.parts.progress import OnRows, ignore_rows
from storage_core.parts.snapshot import parts_in


def repair_lake(  # noqa: PLR0913 - how a call is bounded and followed
    root: str | PathLike[str],
    name: str,
    target: LakeTarget | None = None,
    *,
    roots: Iterable[str | PathLike[str]] = (),
    read: bool = False,
    on_rows: OnRows = ignore_rows,
) -> LakeRepair:
    """Make good what the table of a stream, its store or this machine has lost.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        target: Where its table is; if None where the stream's option `lake` says.
        roots: Other roots that have the stream, whose files of parts may be taken.
        read: Whether each file is read whole, here and in the store; else sizes are compared.
        on_rows: Called again and again with how many rows were read or uploaded so far.

    Raises:
        InvalidRequestError: There is no such stream, or it has no lake; or this process may not
            write in a shard's directory.
        ForeignDataError: What lies there is another stream's table, or none of shardlog.
        UnavailableError: The store does not answer, or the disk refuses; what was repaired before
            that is told beside it, if the store can be compared still.
    """
    copies = PartCopies(Path(root), name, [Path(other) for other in roots])
    before = check_lake(root, name, target, read=read, on_rows=on_rows)  # 1
    with readable_shards(root, name) as opened, scratch_directory() as scratch:
        reader = opened.reader
        place = target or target_of(reader)
        table = open_table(reader, place)
        if table is None:
            return LakeRepair((), 0, before, ())
        lake = LakeParts(place, lake_cache(Path(root).absolute()))
        damaged = {fault.file for fault in before.problems if fault.kind == "digest" and fault.file}
        here = {
            (fault.shard, fault.file)
            for fault in before.problems
            if fault.kind == "part" and fault.shard is not None and fault.file is not None
        }
        local = LocalRepair(reader, table, lake, copies, damaged, here)
        for shard in opened.shards:
            parts = opened.ask(shard, parts_in)
            if parts is not None:
                local.repair(shard, parts.entries)  # 2
        readable = [shard for shard in opened.shards if shard not in opened.faults]
        consent = Consent(
            repair=True, damaged=frozenset(local.damaged), nowhere=frozenset(local.nowhere)
        )
        publication = Publication(reader, place, scratch, on_rows, consent)
        done = publish_in_rounds(publication, readable)  # 3
        published = done.published.values()
        uploaded = [file for shard in published for file in _uploaded(shard)]
        runs = sum(shard.runs_written for shard in published)
    repaired = (*local.repaired, *uploaded)
    if done.fault is not None and not repaired and not runs:
        raise done.fault
    after = check_lake(root, name, target, read=read, on_rows=on_rows)  # 4
    after = after.beside([*local.unread, *(unread.problem for unread in done.unread)])
    return LakeRepair(repaired, runs, after, _errors(done))


def _errors(done: Rounds) -> tuple[ShardlogError, ...]:
    """Return what kept shards from being published, but for files that are told as not read."""
    errors = [done.fault, *done.errors.values()]
    return tuple(error for error in errors if error and not isinstance(error, UnreadFileError))


def _uploaded(published: ShardPublished) -> Iterator[RepairedFile]:
    shard = published.shard
    for path in published.repaired:
        name = image_of_path(path)
        yield RepairedFile(shard, name.first, name.last + 1, "uploaded", path)
