"""A table that follows a part list has each row once, whatever is sealed, merged or expired.

The model: a part is a set of addresses, some of which nobody sees; a file is a set of addresses
that somebody does. What a step names is done to the files, and they are compared with the parts.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from storage_core.format.part_entry import PartEntry
from storage_core.format.shard_state import AddressRange
from storage_core.lake.image_names import ImageName
from storage_core.lake.publishing.mirror import MirrorStep, ShardListing, StepLimits, next_step

_KINDS = ("", "Alarm", "Telemetry")
_numbers = count()


@dataclass
class Log:
    """A shard's parts as sets of addresses, beginning where an owner began."""

    born: int = 0
    sealed: int = 0
    parts: dict[PartEntry, frozenset[int]] = field(default_factory=dict)
    visible: set[int] = field(default_factory=set)

    def seal(self, kinds: list[int], hidden: list[bool], skipped: int) -> None:
        """Seal rows of some kinds, some of them hidden, behind addresses that no row has."""
        begin = self.sealed + skipped
        rows = range(begin, begin + len(kinds))
        self.visible |= {row for row, hides in zip(rows, hidden, strict=False) if not hides}
        self.visible |= set(rows[len(hidden) :])
        for kind in set(kinds):
            self._add(
                kind, frozenset(row for row, of in zip(rows, kinds, strict=True) if of == kind)
            )
        self.sealed = begin + len(kinds)

    def merge(self, kind: int, place: int, size: int) -> None:
        """Merge neighbouring parts of a kind."""
        alike = [part for part in self.entries if part.kind == _KINDS[kind]]
        chosen = alike[place : place + size]
        if len(chosen) > 1:
            rows = frozenset[int]().union(*(self.parts.pop(part) for part in chosen))
            self._add(kind, rows)

    def expire(self, place: int) -> None:
        """Let a part expire as a whole."""
        if place < len(self.parts):
            self.visible -= self.parts.pop(self.entries[place])

    @property
    def entries(self) -> tuple[PartEntry, ...]:
        return tuple(sorted(self.parts, key=lambda part: (part.first, part.number)))

    def _add(self, kind: int, rows: frozenset[int]) -> None:
        number = next(_numbers)
        entry = PartEntry(
            first=min(rows),
            number=number,
            last=max(rows),
            primary_min=0,
            primary_max=0,
            rows=len(rows),
            size=1,
            sealed_at_ms=0,
            level=0,
            is_out_of_order=False,
            digest=number.to_bytes(16, "big"),
            kind=_KINDS[kind],
            footer_bytes=1,
            footer_digest=b"",
        )
        self.parts[entry] = rows


@dataclass
class Table:
    """A table's files of one shard as sets of addresses, and what a stream of it has seen."""

    published: int | None = None
    files: dict[str, tuple[ImageName, frozenset[int]]] = field(default_factory=dict)
    streamed: list[int] = field(default_factory=list)

    def listing(self, log: Log) -> ShardListing:
        begin = log.born if self.published is None else self.published
        names = {path: name for path, (name, _) in self.files.items()}
        return ShardListing(log.entries, log.sealed, log.born, begin, names)

    def commit(self, log: Log, step: MirrorStep, begin: int) -> None:
        for path in step.removes:
            del self.files[path]
        for part in step.adds:
            for piece in part.pieces:
                self._add(log, part.entry, piece, is_new=piece.start >= begin)
        self.published = step.end

    def _add(self, log: Log, entry: PartEntry, piece: AddressRange, *, is_new: bool) -> None:
        rows = {row for row in log.parts[entry] if piece.start <= row < piece.end} & log.visible
        if rows:
            name = ImageName(0, min(rows), max(rows), entry.digest.hex())
            path = f"{name.first}-{name.last}-{name.entry_digest}"
            assert path not in self.files
            self.files[path] = name, frozenset(rows)
            self.streamed += rows if is_new else ()

    @property
    def rows(self) -> list[int]:
        return sorted(row for _, rows in self.files.values() for row in rows)


def publish(log: Log, table: Table, steps_max: int, limits: StepLimits) -> None:
    """Do some steps; after each the table has each visible row below its address once."""
    for _ in range(steps_max):
        shard = table.listing(log)
        step = next_step(shard, limits)
        if step is None:
            return
        before = set(table.rows)
        table.commit(log, step, shard.begin)
        assert shard.begin <= step.end <= max(log.sealed, shard.begin)
        rows = table.rows
        assert len(rows) == len(set(rows))
        assert {row for row in log.visible if row < step.end} <= set(rows)
        # Nothing that was there goes but what has expired.
        assert before & log.visible <= set(rows)
    assert len(table.streamed) == len(set(table.streamed))


_limits = st.builds(StepLimits, st.integers(1, 4), st.integers(1, 12))
_actions = st.one_of(
    st.tuples(
        st.just("seal"),
        st.lists(st.integers(0, 2), min_size=1, max_size=8),
        st.lists(st.booleans(), max_size=8),
        st.sampled_from([0, 0, 0, 3]),
    ),
    st.tuples(st.just("merge"), st.integers(0, 2), st.integers(0, 4), st.integers(2, 4)),
    st.tuples(st.just("merge"), st.integers(0, 2), st.integers(0, 4), st.integers(2, 4)),
    st.tuples(st.just("expire"), st.integers(0, 6)),
    st.tuples(st.just("publish"), st.integers(1, 3), _limits),
)
_ALL = 1000


def act(log: Log, table: Table, actions: list[Any]) -> None:
    """Do what the actions say to a log and its table."""
    for name, *arguments in actions:
        if name == "publish":
            publish(log, table, *arguments)
        else:
            getattr(log, name)(*arguments)


def settle(log: Log, table: Table) -> None:
    """Publish all that there is; the table has then the visible rows and no others."""
    publish(log, table, _ALL, StepLimits())
    assert [row for row in table.rows if row >= log.born] == sorted(log.visible)
    assert next_step(table.listing(log)) is None


@given(st.lists(_actions, max_size=40))
@settings(max_examples=300, deadline=None)
def test_table_has_each_visible_row_once_after_each_step(actions):
    log, table = Log(), Table()
    act(log, table, actions)
    settle(log, table)
    assert table.published in (None, log.sealed)


@given(st.lists(_actions, max_size=20), st.lists(_actions, max_size=20))
@settings(max_examples=200, deadline=None)
def test_owner_that_begins_at_the_published_address_leaves_what_was_published(before, after):
    log, table = Log(), Table()
    act(log, table, before)
    begin = table.published or 0
    earlier = table.rows
    heir = Log(born=begin, sealed=begin)
    act(heir, table, after)
    settle(heir, table)
    assert [row for row in table.rows if row < begin] == earlier


@given(st.lists(_actions, max_size=20), st.lists(_actions, max_size=20), st.integers(0, 40))
@settings(max_examples=200, deadline=None)
def test_owner_that_begins_amid_what_was_published_doubles_nothing(before, after, born):
    log, table = Log(), Table()
    act(log, table, before)
    heir = Log(born=born, sealed=born)
    for name, *arguments in after:
        if name != "publish":
            getattr(heir, name)(*arguments)
    before_it = table.rows
    while (step := next_step(table.listing(heir), StepLimits(2, 5))) is not None:
        table.commit(heir, step, table.listing(heir).begin)
        assert len(table.rows) == len(set(table.rows))
    assert [row for row in table.rows if row < born] == [row for row in before_it if row < born]


def test_log_that_has_less_than_was_published_changes_nothing():
    log, table = Log(), Table()
    log.seal([0, 0, 0, 0], [], 0)
    settle(log, table)
    old = Log()
    old.seal([0, 0], [], 0)
    assert next_step(table.listing(old)) is None


def test_merged_part_across_the_published_address_becomes_two_files():
    log, table = Log(), Table()
    log.seal([0, 0], [], 0)
    settle(log, table)
    log.seal([0, 0, 0], [], 0)
    log.merge(0, 0, 2)
    step = next_step(table.listing(log))
    assert step is not None
    assert [part.pieces for part in step.adds] == [(AddressRange(0, 2), AddressRange(2, 5))]
    assert list(step.removes) == list(table.files)
    assert step.end == 5


def test_part_whose_rows_are_all_hidden_is_not_tried_again():
    log, table = Log(), Table()
    log.seal([0, 0], [True, True], 0)
    settle(log, table)
    assert table.files == {}
    assert table.published == 2


def test_step_ends_where_no_part_is_cut():
    log, table = Log(), Table()
    for _ in range(5):
        log.seal([0, 1, 1, 0], [], 0)
    step = next_step(table.listing(log), StepLimits(parts=4, rows=100))
    assert step is not None
    assert (len(step.adds), step.end) == (4, 8)


def test_new_rows_go_before_what_was_merged():
    log, table = Log(), Table()
    log.seal([0, 0], [], 0)
    log.seal([0, 0], [], 0)
    settle(log, table)
    log.merge(0, 0, 2)
    log.seal([1], [], 0)
    step = next_step(table.listing(log), StepLimits(parts=1))
    assert step is not None
    assert (step.end, step.removes) == (5, ())
    table.commit(log, step, 4)
    step = next_step(table.listing(log), StepLimits(parts=1))
    assert step is not None
    assert (step.end, len(step.removes)) == (5, 2)
