"""The shards of a stream that a writer or a reader has open, and what they report.

Rows (rows.py) and maintenance (stream_maintenance.py) are composed over it. Nothing here knows how
a shard answers. Any thread may call it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.stream_file import StreamFiles
from storage_core.catalog.stream_meta import StreamMeta
from storage_core.errors import ClosedError, InvalidRequestError
from storage_core.format.counters import IndexCounts, StreamStats, stats_of
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.schema_order import in_order_of_all
from storage_core.format.shard_state import AddressRange
from storage_core.parts.snapshot import Part, listed_parts
from storage_core.platform.fork_guard import Home
from storage_core.platform.threads import Threads
from storage_core.read.shard_reader import ShardFacts, ShardReader

S = TypeVar("S", bound=ShardReader)

_THREADS_MAX: Final = 8


class OpenShards(Generic[S]):
    """Shards by number. A reader replaces `files` and `by_number` when the stream grows.

    Attributes:
        files: The stream's files, its options among them.
        by_number: The shards, whether they are closed or not.
        is_closed: Whether `opened` refuses.
        home: The process that opened them.
        threads: Those that call shards side by side.
    """

    def __init__(self, files: StreamFiles, shards: Mapping[int, S], owner: str) -> None:
        """Take over opened shards; `owner` is what error messages call who has them."""
        self.files = files
        self.by_number = shards
        self.is_closed = False
        self.home = Home(files.meta.name)
        self.threads = Threads(_THREADS_MAX)
        self._owner = owner

    def opened(self) -> Mapping[int, S]:
        """Return the shards by number.

        Raises:
            ClosedError: They are closed, or were opened in the process this one is a fork of.
        """
        self.refuse_if_closed()
        return self.by_number

    def shard(self, number: int) -> S:
        """Return one shard.

        Raises:
            InvalidRequestError: It is not open here.
        """
        shard = self.opened().get(number)
        if shard is None:
            message = f"shard {number} is not open here; open are {sorted(self.by_number)}"
            raise InvalidRequestError(message, stream=self.files.meta.name)
        return shard

    def refuse_if_closed(self) -> None:
        """Raise if the shards are closed, or belong to the parent of this process."""
        self.home.refuse_elsewhere()
        if self.is_closed:
            message = f"the {self._owner} is closed"
            raise ClosedError(message, stream=self.files.meta.name)

    # --- what a stream is ------------------------------------------------------------------

    @property
    def meta(self) -> StreamMeta:
        """What was fixed when the stream was made."""
        return self.files.meta

    @property
    def options(self) -> StreamOptions:
        """The options in force; a reader's as they were at its last `refresh`."""
        return self.files.settings.options

    def lineage(self, shard: int) -> str:
        """Return the random id of a shard's log, in hex; the shard need not be open here."""
        return self.files.lineage(shard).hex()

    # --- what its shards report ------------------------------------------------------------

    def committed(self) -> dict[int, int]:
        """Return each open shard's committed; a reader reads each marker once."""
        return {number: shard.committed() for number, shard in self.opened().items()}

    def lost_ranges(self) -> dict[int, list[tuple[int, int]]]:
        """Return each open shard's lost ranges as (start, end)."""
        return {number: _pairs(facts.lost) for number, facts in self._facts().items()}

    def gaps(self) -> dict[int, list[tuple[int, int]]]:
        """Return each open shard's committed ranges that `skip` left out, as (start, end)."""
        return {number: _pairs(facts.skipped) for number, facts in self._facts().items()}

    def source(self, shard: int) -> Mapping[str, object] | None:
        """Return where the source of a shard's rows stands, as `append_batch` was given it.

        It is that of the last batch written, which may not be committed yet.
        """
        return self.shard(shard).state().source

    def dead_letters(
        self, shard: int, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Return a shard's committed dead letters by address, as `append_batch` was given them.

        Args:
            shard: The shard's number.
            start: The least address.
            end: Their exclusive end; None for all that is committed.
        """
        return self.shard(shard).dead_letters(start, end)

    def schemas(self, registry_id: int | None = None) -> list[SchemaEntry]:
        """Return the schemas of which the open shards have, or had, rows; each once.

        They are there without the registry; a schema of a batch that is not committed yet may be
        among them. What came later to a shard stands behind what came to it before.

        Args:
            registry_id: Only those of this id; the others are not read.
        """
        return in_order_of_all(shard.schemas(registry_id) for shard in self.opened().values())

    def parts(self) -> list[Part]:
        """Return the parts of the open shards: the files of Parquet that have their sealed rows."""
        return [
            part
            for number, shard in self.opened().items()
            for part in listed_parts(
                number, self.files.shard_directory(number), shard.parts().entries
            )
        ]

    def unsealed(self) -> dict[int, int]:
        """Return how many committed addresses of each open shard are in no part yet."""
        return {number: facts.unsealed for number, facts in self._facts().items()}

    def part_marks(self) -> dict[int, tuple[int, int]]:
        """Return what changes with each open shard's part list: its end, and a sum of its entries.

        A list with the same marks has the same parts.
        """
        return {n: (facts.sealed, facts.part_list_sum) for n, facts in self._facts().items()}

    def untrimmed(self) -> dict[int, int]:
        """Return how many addresses of each open shard are in parts and in blocks too."""
        return {number: facts.untrimmed for number, facts in self._facts().items()}

    def stats(self, shard: int | None = None) -> StreamStats:
        """Return what one open shard has counted, or all of them.

        They count what is written, so batches that are not committed yet may be among it.
        """
        shards = self.opened().values() if shard is None else [self.shard(shard)]
        states = [opened.state() for opened in shards]
        least = IndexCounts(spacing=self.options.index.spacing_min)
        return stats_of(
            (facts.tail.counters, facts.index.plus(least), facts.cleared) for facts in states
        )

    def _facts(self) -> dict[int, ShardFacts]:
        return {number: shard.state() for number, shard in self.opened().items()}


def _pairs(ranges: Iterable[AddressRange]) -> list[tuple[int, int]]:
    return [(addresses.start, addresses.end) for addresses in ranges]
