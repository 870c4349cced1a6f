"""What publishing did, and how far the shards of a stream are published."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from storage_core.errors import ShardlogError
from storage_core.lake.publishing.ownership import Owner


@dataclass(frozen=True, slots=True)
class ShardPublished:
    """What a call published of a shard.

    Attributes:
        shard: The shard's number.
        begin: The published address before the call; the log's first one where there was none.
        end: The published address since: the table has the rows below it.
        sealed: The address up to which rows could be published, by the last snapshot.
        rows: How many rows the table has got.
        files_added: How many files the table has got, those in the place of others among them.
        files_removed: How many files the table does not name any more.
        bytes: How many bytes the added files have.
        commits: In how many versions of the table that was done.
        is_whole: Whether nothing was left to do; else the call ended at its limit.
        files_gone: How many files of parts went from this machine, since the table has them.
        repaired: Paths of files that were uploaded again: the table or the store had lost them.
        parts_lost: How many parts the table lacks that it had once, as a bounded call tells.
        runs_written: How many heads runs were written again that were missing or damaged.
        logs_removed: How many archived logs went, all of whose rows the table has.
        logs_kept: How many stay though it is published up to their end: they alone have some rows
            or dead letters.
    """

    shard: int
    begin: int
    end: int
    sealed: int
    rows: int = 0
    files_added: int = 0
    files_removed: int = 0
    bytes: int = 0
    commits: int = 0
    is_whole: bool = True
    files_gone: int = 0
    repaired: tuple[str, ...] = ()
    parts_lost: int = 0
    runs_written: int = 0
    logs_removed: int = 0
    logs_kept: int = 0

    def then(self, other: "ShardPublished") -> "ShardPublished":
        """Return what this and a later step of the same shard did together."""
        return ShardPublished(
            self.shard,
            self.begin,
            other.end,
            other.sealed,
            self.rows + other.rows,
            self.files_added + other.files_added,
            self.files_removed + other.files_removed,
            self.bytes + other.bytes,
            self.commits + other.commits,
            other.is_whole,
            self.files_gone + other.files_gone,
            (*self.repaired, *other.repaired),
            other.parts_lost,
            self.runs_written + other.runs_written,
            self.logs_removed + other.logs_removed,
            self.logs_kept + other.logs_kept,
        )


@dataclass(frozen=True, slots=True)
class PublishReport:
    """What a call published of a stream.

    Attributes:
        uri: Where the table is.
        shards: What was done in each shard.
        commits: How many versions of the table the call has made, each of one or several shards.
    """

    uri: str
    shards: Mapping[int, ShardPublished]
    commits: int

    @property
    def rows(self) -> int:
        """How many rows the table has got."""
        return sum(shard.rows for shard in self.shards.values())

    @property
    def files_added(self) -> int:
        """How many files the table has got."""
        return sum(shard.files_added for shard in self.shards.values())

    @property
    def files_removed(self) -> int:
        """How many files the table does not name any more."""
        return sum(shard.files_removed for shard in self.shards.values())

    @property
    def bytes(self) -> int:
        """How many bytes the added files have."""
        return sum(shard.bytes for shard in self.shards.values())


@dataclass(frozen=True, slots=True)
class ShardLakeStatus:
    """How far a shard is published.

    Attributes:
        published: The address below which the table has its rows; None where it has none yet.
        sealed: The address below which rows can be published.
        committed: The exclusive end of its rows.
        unpublished: How many committed addresses are not published.
        unpublished_age_ms: How long ago the oldest of these was committed; 0 where there is none.
        owner: Which log publishes it, seen from this one; None where none was named.
    """

    published: int | None
    sealed: int
    committed: int
    unpublished: int
    unpublished_age_ms: int
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class UnreadShard:
    """A shard whose log cannot be read.

    Attributes:
        published: The address below which the table has its rows; None where it has none yet.
        error: Why the log cannot be read.
        way_out: The command that gives it a new log from the table; None where it has none there.
    """

    published: int | None
    error: ShardlogError
    way_out: str | None


@dataclass(frozen=True, slots=True)
class LakeStatus:
    """How far a stream is published.

    Attributes:
        uri: Where the table is.
        version: The table's version; None where there is no table yet.
        files: How many files it has.
        bytes: How many bytes these have.
        shards: Each shard of the stream whose log can be read.
        unread: The others.
    """

    uri: str
    version: int | None
    files: int
    bytes: int
    shards: Mapping[int, ShardLakeStatus]
    unread: Mapping[int, UnreadShard] = field(default_factory=dict)

    @property
    def unpublished(self) -> int:
        """How many committed addresses are not published."""
        return sum(shard.unpublished for shard in self.shards.values())

    @property
    def unpublished_age_ms(self) -> int:
        """How long ago the oldest of these was committed; 0 where there is none."""
        return max((shard.unpublished_age_ms for shard in self.shards.values()), default=0)
