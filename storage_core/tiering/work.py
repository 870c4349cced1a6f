"""Work on parts, and what came of it: values that one process sends to another."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storage_core.format.part_entry import PartEntry
from storage_core.read.snapshot import ShardSnapshot
from storage_core.write.opened_shard import ShardContext


@dataclass(frozen=True, slots=True)
class SealWork:
    """Rows by address that become parts.

    Attributes:
        begin: The first address.
        end: The exclusive end; less is done where it would be too much for one step.
        generation: Of the shard; what has expired since is gone.
        number: Of the first part that is built; the others have those behind it.
        now_ms: When that is.
        is_for_lake: Whether parts are published, so that more engines than ours read their files.
    """

    begin: int
    end: int
    generation: int
    number: int
    now_ms: int
    is_for_lake: bool = False


@dataclass(frozen=True, slots=True)
class CompactWork:
    """Parts whose rows become one part.

    Attributes:
        parts: Neighbours of one level and value schema.
        number: Of the part that is built.
        now_ms: When that is.
        is_for_lake: Whether parts are published, so that more engines than ours read their files.
    """

    parts: tuple[PartEntry, ...]
    number: int
    now_ms: int
    is_for_lake: bool = False


@dataclass(frozen=True, slots=True)
class RebuildWork:
    """A damaged part whose rows the log has.

    Attributes:
        part: It.
        number: Of the part that is built in its place.
        now_ms: When that is.
        is_for_lake: Whether parts are published, so that more engines than ours read their files.
    """

    part: PartEntry
    number: int
    now_ms: int
    is_for_lake: bool = False


@dataclass(frozen=True, slots=True)
class ProveWork:
    """Blocks that parts are to replace.

    Attributes:
        begin: The first address.
        end: The exclusive end; a block ends there.
        rows: How many rows the blocks have.
        part_list_sum: The sum that proves the part list whole.
    """

    begin: int
    end: int
    rows: int
    part_list_sum: int


@dataclass(frozen=True, slots=True)
class Built:
    """Parts whose files are durable and proven; no part list has them yet.

    Attributes:
        parts: Their entries; none where blocks were only to be proven.
        end: The exclusive end of the addresses that were sealed, or proven.
    """

    parts: tuple[PartEntry, ...]
    end: int = 0


BuildWork = SealWork | CompactWork | RebuildWork
Work = BuildWork | ProveWork
# Builds or proves the files of parts; the view has what they are built of.
Builder = Callable[[ShardContext, ShardSnapshot, Work], Built]


@dataclass(frozen=True, slots=True)
class Order:
    """Work on a shard, for whoever opens it by name.

    Attributes:
        root: The directory that holds the streams.
        stream: The stream's name.
        shard: The shard's number.
        work: What is to be built.
    """

    root: Path
    stream: str
    shard: int
    work: Work
