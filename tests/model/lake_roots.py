"""A partition whose log has a lake, beside plain lists: roots come and go, the records stay.

roots.append(...)       the owner of the partition and the lists get the next records of its topic
roots.publish_all()     what there is
roots.lose()            the owner's root is gone; another one begins from the table, and the source
                        gives it what the table does not have
roots.check()           the owner shows what the lists show, and the table has each row once
with failing(3): ...    the third call to a store fails, before it took effect or behind that
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from deltalake import DeltaTable

from storage_core import (
    Environment,
    ForeignDataError,
    Part,
    Stream,
    StreamOptions,
    UnavailableError,
)
from storage_core.lake.beginning.begin import begin_from_lake
from storage_core.lake.file_store import FileStore, OpenedFile
from storage_core.lake.image_names import whole_image_name
from storage_core.lake.repair.repair import repair_lake
from storage_core.lake.table import LakeTable
from storage_core.testing import ManualClock, SimulatedCrash
from tests.lab import as_arrow
from tests.lake.beginning.beginning_lab import NAME, SHARD, Root
from tests.lake.publish.publish_lab import BEFORE, BEHIND, Calls, Changes, see_to_failure
from tests.lake.repair.repair_lab import flipped
from tests.lake.support.stores import DirectoryStore
from tests.model.keyed import id_of
from tests.model.plain_shard import PlainRow, PlainShard
from tests.strategies import Given

# Each call by which a publish or a begin asks a store for something.
CALLS: Final[Sequence[tuple[type, str]]] = (
    *((LakeTable, name) for name in ("open", "create", "add_columns", "commit_all", "reload")),
    *((FileStore, name) for name in ("put", "get", "opened", "listed", "delete")),
    (OpenedFile, "read"),
)
_NS_A_MS: Final = 10**6
_COLUMNS: Final = ("primary", "version", "address", "late", "payload")
Fields = tuple[Any, ...]


@contextmanager
def failing(call: int, error: type[BaseException], *, behind: bool) -> Iterator[Calls]:
    """Let the n-th call to a store fail, before it took effect or behind that."""
    calls, numbers = Calls(), itertools.count(1)

    def counted(usual: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(usual)
        def fails(*arguments: Any, **named: Any) -> Any:
            calls.count = next(numbers)
            is_last = calls.count == call
            calls.has_failed |= is_last
            if is_last and not behind:
                raise error(BEFORE)
            answer = usual(*arguments, **named)
            if is_last:
                raise error(BEHIND)
            return answer

        return fails

    with ExitStack() as patches:
        for owner, name in CALLS:
            usual = owner.__dict__[name]
            other: Any = (
                classmethod(counted(usual.__func__))
                if isinstance(usual, classmethod)
                else counted(usual)
            )
            patches.enter_context(patch.object(owner, name, other))
        yield calls


def fail_in(
    do: Callable[[], object], call: int, error: type[BaseException], *, behind: bool
) -> None:
    """Do something of which the n-th call to a store fails; an earlier one, if it has fewer."""

    def attempt(number: int) -> Calls:
        with (
            suppress(SimulatedCrash, UnavailableError, ForeignDataError),
            failing(number, error, behind=behind) as calls,
        ):
            do()
        return calls

    see_to_failure(attempt, call)


class Roots:
    """The owner of a partition, the roots before it, the table, and what plain lists say."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._folder = folder
        store = DirectoryStore(folder)
        self._target = store.target()
        self._changes = Changes(store, self._target)
        self._clock = ManualClock()
        self._options = options
        self._has_keys = options.get("key_mode") == "dictionary"
        self._count = 0
        self._topic: list[tuple[int, Given]] = []
        self._expired_at: int | None = None
        self._former: list[Root] = []
        self.plain = PlainShard(SHARD, StreamOptions(**options))
        self._written: dict[int, PlainRow] = {}
        self.owner = self._new_root()
        Stream.add_shards(self.owner.root, NAME, {SHARD: 0})
        self.owner.open()

    # --- steps of the owner ------------------------------------------------------------------

    def append(self, records: Sequence[tuple[Given, int]]) -> None:
        """Take the next records, each so many addresses behind the one before."""
        address = self._topic[-1][0] if self._topic else -1
        for record, gap in records:
            address += 1 + gap
            self._topic.append((address, record))
        self._feed(self._topic[-len(records) :])

    def append_often(self, records: Sequence[tuple[Given, int]]) -> None:
        """Make so many small parts that there is something to compact."""
        for _ in range(5):
            self.append(records)
            self.seal()

    def seal(self) -> None:
        self.owner.stream.seal()

    def compact(self) -> None:
        self.owner.stream.compact()

    def trim(self) -> None:
        self.owner.stream.trim()

    def reopen(self) -> None:
        self.owner.stream.close()
        self.owner.open()

    def let_pass(self, seconds: int) -> None:
        self._clock.advance(seconds)

    def expire(self) -> None:
        """Let expire what is too old by now."""
        self._expired_at = self._now
        self.owner.stream.expire(now=self._now)
        self.plain.expire(self._floor)

    # --- steps of the lake -------------------------------------------------------------------

    def publish(self) -> None:
        """Publish what is sealed; where another root has done so, begin from what it published."""
        try:
            self.owner.publish()
        except ForeignDataError:
            self.begin_again(0, SimulatedCrash, behind=False)
            self.owner.publish()

    def publish_all(self) -> None:
        """Seal what there is, and publish it."""
        self.seal()
        self.publish()

    def fail_to_publish(self, call: int, error: type[BaseException], behind: bool) -> None:
        fail_in(self.owner.publish, call, error, behind=behind)

    def damage(self, place: int, in_store: bool) -> None:
        """Let a file be damaged that the owner has and the store, here or there; repair it."""
        self.publish()
        pairs = [(part.path, self._stored(part)) for part in self.owner.stream.parts()]
        both = [pair for pair in pairs if all(file.exists() for file in pair)]
        if not both:
            return
        here, stored = both[place % len(both)]
        file, other = (stored, here) if in_store else (here, stored)
        file.write_bytes(flipped(other.read_bytes()))
        done = repair_lake(self.owner.root, NAME, read=True)
        assert done.is_clean, (done.left.problems, done.errors)
        (repaired,) = done.repaired
        assert repaired.kind == ("uploaded" if in_store else "from lake")
        newest = self._directory / repaired.file if in_store else file
        if newest != file:
            # Rows of the part have expired since: a file without them took its place.
            live = DeltaTable(self._target.uri).file_uris()
            assert (file.as_posix() in live, newest.as_posix() in live) == (False, True)
        else:
            assert file.read_bytes() == other.read_bytes()

    def publish_formerly(self) -> None:
        """Let a root publish that once owned the partition, and does not know that it is over."""
        for root in self._former[-1:]:
            with suppress(ForeignDataError):
                root.publish()

    def lose(self, call: int, error: type[BaseException], behind: bool) -> None:
        """Let the owner's root be gone; another takes over, on the second try."""
        self._abandon()
        # At once: threads of a dead process may still make files while others are removed.
        self.owner.root.rename(self.owner.root.with_name(f"lost-{self._count}"))
        self._take_over(self._new_root(), call, error, behind=behind)

    def take_over(self, call: int, error: type[BaseException], behind: bool) -> None:
        """Let another root take over, on the second try; the owner does not hear of it."""
        self._abandon()
        self._former.append(self.owner)
        self._take_over(self._new_root(), call, error, behind=behind)

    def begin_again(self, call: int, error: type[BaseException], behind: bool) -> None:
        """Let the owner's own root begin from the table, on the second try."""
        self.owner.stream.close()
        self._take_over(self.owner, call, error, behind=behind)

    # --- what is there -----------------------------------------------------------------------

    def check(self) -> None:
        """Compare the owner and the table with the lists."""
        visible = self.plain.visible()
        with self.owner.reader() as reader:
            assert reader.committed() == {SHARD: self.plain.committed}
            columns = [self._id_column, *_COLUMNS]
            by_arrival = [row for rows in reader.scan(columns=columns) for row in rows.to_pylist()]
            assert sorted(map(self._row_of, by_arrival), key=_address) == list(map(_plain, visible))
            by_id = map(self._row_of, reader.read(columns=columns).to_pylist())
            assert sorted(by_id, key=_address) == list(map(_plain, visible))
            newest = {row.secondary: row for row in sorted(visible, key=lambda row: row.primary)}
            of_each = sorted(map(self._row_of, reader.rows.newest().to_pylist()))
            assert of_each == sorted(map(_plain, newest.values()))
        self._check_table({row.address for row in visible})

    def problems(self) -> list[str]:
        """Return what verify finds wrong with the owner."""
        return [str(problem) for problem in self.owner.stream.verify(reads_lake=True).problems]

    def _check_table(self, visible: set[int]) -> None:
        if not DeltaTable.is_deltatable(self._target.uri):
            return
        self._changes.check()
        table = DeltaTable(self._target.uri).to_pyarrow_table()
        rows = table.select([self._id_column, "primary", "version", "address", "payload"])
        in_table = {row["address"]: row for row in rows.to_pylist()}
        assert len(in_table) == table.num_rows
        published = self._published()
        assert {address for address in visible if address < published} <= {*in_table}
        assert all(address < published for address in in_table)
        for address, row in in_table.items():
            written = self._written[address]
            assert self._id_in(row) == written.secondary
            assert (row["primary"], row["version"]) == (written.primary, written.version)
            assert row["payload"] == written.payload

    @property
    def _now(self) -> int:
        return self._clock.now_ns() // _NS_A_MS

    @property
    def _floor(self) -> int:
        floor: int = self.owner.stream._shards[SHARD].state().floor
        return floor

    @property
    def _id_column(self) -> str:
        return "key" if self._has_keys else "secondary"

    def _id_in(self, row: dict[str, Any]) -> int:
        return id_of(row["key"]) if self._has_keys else int(row["secondary"])

    def _row_of(self, row: dict[str, Any]) -> Fields:
        return (self._id_in(row), *(row[name] for name in _COLUMNS))

    # --- how it is done ----------------------------------------------------------------------

    def _new_root(self) -> Root:
        self._count += 1
        environment = Environment(self._clock)
        place = self._folder / f"root-{self._count}"
        return Root(place, environment, lake=self._target.uri, **self._options)

    def _feed(self, records: Sequence[tuple[int, Given]]) -> None:
        addresses = [address for address, _ in records]
        batch = as_arrow([record for _, record in records], keyed=self._has_keys)
        if not records:
            return
        self.owner.stream.append_batch(batch, shard=SHARD, addresses=addresses)
        self.owner.stream.commit()
        self.plain.append_batch([record for _, record in records], self._now, addresses)
        self.plain.commit(self._now)
        self._written.update((row.address, row) for row in self.plain.rows)

    def _stored(self, part: Part) -> Path:
        return self._directory / whole_image_name(SHARD, part.entry)

    @property
    def _directory(self) -> Path:
        assert self._target.directory is not None
        return self._target.directory

    def _abandon(self) -> None:
        """Let the owner's process die."""
        for shard in self.owner.stream._shards.values():
            shard.abandon()

    def _take_over(
        self, heir: Root, call: int, error: type[BaseException], *, behind: bool
    ) -> None:
        fail_in(lambda: begin_from_lake(heir.root, NAME, [SHARD]), call, error, behind=behind)
        begun = begin_from_lake(heir.root, NAME, [SHARD])
        end = begun[SHARD].end if begun else 0
        assert end == self._published()
        if begun or heir is not self.owner:
            self._go_on_from(end)
        if not begun and heir is not self.owner:
            Stream.add_shards(heir.root, NAME, {SHARD: 0})
        self.owner = heir
        heir.open()
        if self._expired_at is not None:
            heir.stream.expire(now=self._expired_at)
            assert self._floor == self.plain.floor
        # The source goes on behind what is there, as its offsets say.
        self._feed([(at, record) for at, record in self._topic if at >= self.plain.next])

    def _go_on_from(self, end: int) -> None:
        """Let the lists have what the table has."""
        self.plain.rows = [row for row in self.plain.rows if row.address < end]
        self.plain.next = self.plain.committed = end

    def _published(self) -> int:
        if not DeltaTable.is_deltatable(self._target.uri):
            return 0
        self._changes.check()
        published: int = max(self._changes.published.values(), default=0)
        return published


def _address(row: Fields) -> int:
    return int(row[3])


def _plain(row: PlainRow) -> Fields:
    return (row.secondary, row.primary, row.version, row.address, row.late, row.payload)
