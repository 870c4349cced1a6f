"""Whether a stream and its table are as a publish left them that had nothing left to do.

To open a table takes a dozen requests or more; to see that it is as it was, five: there is no
newer commit, and the last two have the ids that they had. Where the part lists are as they were
too, there is nothing to publish. It is noted beside the notes of the shards (notes.py), and is as
little a truth as they are: what is not noted, or not as noted, is compared.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.lake.delta.commits import commit_id_in
from storage_core.lake.delta.state import log_path
from storage_core.lake.delta_errors import LakeFileGoneError
from storage_core.lake.file_store import FileStore
from storage_core.lake.publishing.followed import follower_of
from storage_core.lake.publishing.report import ShardPublished
from storage_core.lake.target import LakeTarget
from storage_core.reader import StreamReader


@dataclass(frozen=True, slots=True)
class ShardMarks:
    """What differs once a shard's log or its part list is another.

    Attributes:
        lineage: The lineage of the log.
        sealed: Rows below this address are in parts.
        part_list_sum: A sum of the entries.
    """

    lineage: str
    sealed: int
    part_list_sum: int


@dataclass(frozen=True, slots=True)
class TableCommits:
    """The newest commits of a table.

    Attributes:
        version: The newest version.
        newest: The id of its commit.
        before: The id of the commit that it follows.
    """

    version: int
    newest: str
    before: str


def marks_of(reader: StreamReader, shards: Collection[int]) -> dict[int, ShardMarks]:
    """Return the marks of shards, none of one that cannot be read: publishing it says why.

    IMPORTANT: to be read before the part lists that are published, which may be newer than that.
    """
    marks = {}
    for shard in shards:
        try:
            state = follower_of(reader, shard).ask(lambda view: view.state)
        except (CorruptionError, UnavailableError):
            continue
        marks[shard] = ShardMarks(reader.lineage(shard), state.sealed, state.part_list_sum)
    return marks


def encode_whole(
    uri: str,
    commits: TableCommits,
    marks: Mapping[int, ShardMarks],
    published: Mapping[int, ShardPublished],
) -> dict[str, Any]:
    """Return what is noted of a stream of which nothing is left to publish."""
    shards = {
        str(shard): [of.lineage, of.sealed, of.part_list_sum, published[shard].end]
        for shard, of in marks.items()
    }
    table = [commits.version, commits.newest, commits.before]
    return {"lake": uri, "table": table, "shards": shards}


def decode_whole(
    note: Mapping[str, Any] | None, uri: str, marks: Mapping[int, ShardMarks]
) -> tuple[TableCommits, dict[int, int]] | None:
    """Return what was noted of the table, and up to where each shard was published.

    None where nothing was noted, or the stream has changed since.
    """
    try:
        assert note is not None
        if note["lake"] != uri:
            return None
        version, newest, before = note["table"]
        noted = {int(shard): entry for shard, entry in note["shards"].items()}
        if {shard: ShardMarks(*entry[:3]) for shard, entry in noted.items()} != marks:
            return None
        ends = {shard: int(entry[3]) for shard, entry in noted.items()}
        return TableCommits(int(version), str(newest), str(before)), ends
    except (AssertionError, AttributeError, KeyError, LookupError, TypeError, ValueError):
        return None


def are_newest(commits: TableCommits, target: LakeTarget) -> bool:
    """Tell whether a table's newest commits are these.

    Raises:
        UnavailableError: The store does not answer.
        InvalidRequestError: It refuses.
    """
    directory = target.directory
    if directory is not None and not directory.is_dir():
        return False
    store = FileStore(target)
    if commits.version < 1 or store.size(log_path(commits.version + 1)) is not None:
        return False
    try:
        ids = [
            commit_id_in(store.read(log_path(version)))
            for version in (commits.version, commits.version - 1)
        ]
    except LakeFileGoneError:
        return False
    return ids == [commits.newest, commits.before]
