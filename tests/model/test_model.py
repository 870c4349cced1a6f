"""The log against plain lists, under random steps and crashes.

Goal: whatever is done to a stream, in whatever order, every read on every side answers what
plain lists answer that follow DESIGN's rules in a few lines each (plain_shard.py: states and
writing; plain_stream.py: reading). The lists share no code with the log.

Method: a Hypothesis state machine. Each step is one method; it is done to the lists and to a
real stream on a real store, and both must answer alike or refuse alike. The process may die
before any writing call of any shard, while it writes, closes, creates or opens, and while it sees
to parts and expiry before any call to a file; then

* what was written before the step is there, in every shard;
* of the step, each shard holds a prefix of its atomic writes;
* a transaction whose first writing call was reached is there whole, else not at all.

The lists collect the states they pass in a step; after a crash exactly one must be found, and
the test goes on from it. After each step committed, counters, all rows in order and all in
replay are compared; one kind of step asks everything else there is to ask, of the writer or
of a reader beside it, in this process or in another.

Rows of every other batch have schemas, each by its version (schemas.py).

Where a stream has a key dictionary each id stands for a key (keyed.py), and the lists are the same.

SHARDLOG_MODEL_EXAMPLES says how many examples of 50 steps are run. A failure prints its steps
and a `@reproduce_failure` line to put above the machine; `--hypothesis-seed` replays a run. A
new kind of step is one more method with `@step`; runs go on until each kind came.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition

from storage_core import StreamOptions
from tests import strategies
from tests.lab import rows_in, rows_of
from tests.model.answers import (
    READ_COLUMNS,
    Begun,
    check_everything,
    check_question,
    check_schemas,
    columns_of,
)
from tests.model.keyed import in_ids
from tests.model.plain_shard import RefusedError
from tests.model.plain_stream import question_about
from tests.model.side_by_side import NO_CRASH, SideBySide, step, steps_taken
from tests.strategies import BatchForm, Crash, Given, GivenCaps, Places, Question
from tests.thin import rounds

EXAMPLES = rounds("SHARDLOG_MODEL_EXAMPLES", few=18, many=200)
STEPS = 50
# Few examples leave out a kind of step once in some thousand runs: more of them are run then.
RUNS_MAX = 10

transaction_steps = st.lists(st.one_of(strategies.records, strategies.batches), max_size=4)


class LogAgainstLists(SideBySide):
    """The steps there are."""

    @initialize(
        options=strategies.stream_options(), crash=strategies.crashes, reads_from_afar=st.booleans()
    )
    def create(self, options: StreamOptions, crash: Crash, reads_from_afar: bool) -> None:
        self.begin(options, crash)
        self.lab.reads_from_afar = reads_from_afar

    # --- steps that write ------------------------------------------------------------------

    @step(record=strategies.records_often_refused, crash=strategies.crashes)
    def append(self, record: Given, crash: Crash) -> None:
        self.both(
            lambda: self.lab.append(record), lambda: self.plain.append(record, self.lab.now), crash
        )

    @step(records=strategies.batches, form=strategies.batch_forms, crash=strategies.crashes)
    def append_batch(self, records: list[Given], form: BatchForm, crash: Crash) -> None:
        self.both(
            lambda: self.lab.append_batch(records, form),
            lambda: self.plain.append_batch(records, self.lab.now),
            crash,
        )

    @step(
        shard=strategies.shard_numbers,
        records=strategies.batches,
        places=strategies.places,
        skip=st.sampled_from([None, None, 0, 5]),
        crash=strategies.crashes,
    )
    def append_at_addresses(
        self,
        shard: int,
        records: list[Given],
        places: Places,
        skip: int | None,
        crash: Crash,
    ) -> None:
        """Fetch again what may be stored, go on behind it, and say where the source stands."""
        plain = self.shard(shard)
        records = self.fitting(plain, records)
        address = max(0, plain.next + len(plain.unsealed) - places.back)
        addresses = []
        for _, gap in zip(records, places.gaps, strict=False):
            addresses.append(address + gap)
            address += gap + 1
        source = None if skip is None else {"next": address + skip}
        self.both(
            lambda: self.lab.append_batch(
                records, shard=plain.number, addresses=addresses, source=source
            ),
            lambda: plain.append_batch(records, self.lab.now, addresses, source),
            crash,
        )

    @step(shard=strategies.shard_numbers, records=strategies.batches, crash=strategies.crashes)
    def append_to_named_shard(self, shard: int, records: list[Given], crash: Crash) -> None:
        plain = self.shard(shard)
        records = self.fitting(plain, records)
        self.both(
            lambda: self.lab.append_batch(records, shard=plain.number),
            lambda: plain.append_batch(records, self.lab.now),
            crash,
        )

    @step(crash=strategies.crashes)
    def commit(self, crash: Crash) -> None:
        self.both(self.lab.commit, lambda: self.plain.commit(self.lab.now), crash)

    @precondition(lambda self: self.lab.options.sync == "commit")
    @step(shard=strategies.shard_numbers, records=strategies.batches)
    def commit_while_another_appends(self, shard: int, records: list[Given]) -> None:
        plain = self.shard(shard)
        records = self.fitting(plain, records)
        has_synced = self.lab.commit_while_appending(plain.number, records)
        self.plain.commit(self.lab.now)
        if has_synced:
            plain.append_batch(records, self.lab.now)
        self.has_changed = True

    # --- transactions ----------------------------------------------------------------------

    @step(name=strategies.transaction_ids, steps=transaction_steps, crash=strategies.crashes)
    def transaction(self, name: str, steps: list[Given | list[Given]], crash: Crash) -> None:
        """A reader stands by where the process dies again: it must never see a half of it."""
        records = _flat(steps)
        if crash.again:
            self.lab.reader.refresh()
        is_new = self.plain.transaction_total(name) is None
        self.both(
            lambda: self.lab.transaction(name, steps, len(records)),
            lambda: self.plain.transaction(name, records, self.lab.now),
            crash,
            on_crash=lambda: (
                self.plain.finish_after_crash(name, records, self.lab.now) if is_new else None
            ),
        )

    @step(name=strategies.transaction_ids, steps=transaction_steps, crash=strategies.crashes)
    def replay_transaction(self, name: str, steps: list[Given | list[Given]], crash: Crash) -> None:
        """A replay under a known id changes nothing, whatever rows it brings."""
        total = self.plain.transaction_total(name)
        if total is not None:
            self.both(lambda: self.lab.transaction(name, steps, total), lambda: None, crash)

    @step(
        name=strategies.transaction_ids,
        steps=transaction_steps,
        way=st.sampled_from(["exception", "wrong total", "death"]),
        crash=strategies.crashes,
    )
    def fail_transaction(
        self, name: str, steps: list[Given | list[Given]], way: str, crash: Crash
    ) -> None:
        """A transaction whose block is not left in order has never been."""
        if self.plain.transaction_total(name) is not None:
            return
        if way == "exception":
            self.both(lambda: self.lab.abort_transaction(name, steps), lambda: None)
        elif way == "wrong total":
            self.both(lambda: self.lab.transaction(name, steps, rows_in(steps) + 1), _refuse)
        else:
            self.plain.begin_step()
            self.lab.die_in_transaction(name, steps)
            self.rise(crash)

    # --- expiry ----------------------------------------------------------------------------

    @step(floor=strategies.floors, caps=strategies.caps, crash=strategies.upkeep_crashes)
    def expire(self, floor: int, caps: GivenCaps, crash: Crash) -> None:
        """What is below the floor or above a cap is hidden; what is gone is told, and no more."""
        shards = [shard.number for shard in self.plain.shards]
        blocks = [self.lab.blocks(shard) for shard in shards]

        def real() -> list[int]:
            self.lab.expire(floor, caps)
            return self.plain.taken_below([self.lab.cut(shard) for shard in shards])

        self.both(
            real,
            lambda: self.plain.expire(floor, caps, blocks),
            crash,
            on_crash=lambda: self.plain.expire_in_passing(floor, caps, blocks),
        )
        for shard in self.plain.shards:
            self.take_over_expiry(shard)

    # --- parts -----------------------------------------------------------------------------

    @step(
        then=st.sampled_from(["nothing", "trim", "trim", "compact"]),
        crash=strategies.upkeep_crashes,
    )
    def seal(self, then: str, crash: Crash) -> None:
        """Whether parts stand beside blocks or for them, no read is another for it."""
        self.both(lambda: self.lab.seal(then), lambda: None, crash)

    @step(has_builder=st.booleans(), crash=strategies.upkeep_crashes)
    def maintain(self, has_builder: bool, crash: Crash) -> None:
        """What is due is done in parts of shards, by whomever."""
        self.both(lambda: self.lab.maintain(has_builder=has_builder), lambda: None, crash)

    @step(index=st.integers(0, 9), crash=strategies.upkeep_crashes)
    def rebuild_parts(self, index: int, crash: Crash) -> None:
        """A part that was damaged is made again of its blocks, whatever comes between."""
        self.lab.damage_part(index)
        self.both(self.lab.rebuild_parts, lambda: None, crash)
        self.both(self.lab.rebuild_parts, lambda: None)

    @step(
        shard=strategies.shard_numbers,
        then=st.sampled_from(["trim", "compact", "maintain", "expire"]),
        floor=strategies.floors,
        caps=strategies.caps,
    )
    def read_while_parts_change(self, shard: int, then: str, floor: int, caps: GivenCaps) -> None:
        """Scans show the moment they began in, wherever their rows lie by and by."""
        plain = self.shard(shard)
        if plain.refuses(None, None):
            return
        reads = [in_ids(one, self.lab.options) for one in (self.lab.writer, self.lab.reader)]
        tails = [Begun(one.tail(plain.number), plain.replayed()) for one in reads]
        arrived = columns_of(self.plain.scan(question_about()), READ_COLUMNS)
        scans = [Begun(one.scan(), arrived) for one in reads]
        if then == "expire":
            self.expire(floor, caps, NO_CRASH)
        elif then == "maintain":
            self.maintain(has_builder=False, crash=NO_CRASH)
        else:
            self.seal(then, NO_CRASH)
        is_less = then == "expire"
        for tail in tails:
            tail.expect_the_rest([] if is_less else None)
        left = columns_of(self.plain.scan(question_about()), READ_COLUMNS)
        for scan in scans:
            scan.expect_the_rest(left if is_less else None)

    @step()
    def open_while_parts_are_away(self) -> None:
        """A file that is not there for a moment costs nothing."""
        self.both(
            self.lab.reopen_while_parts_are_away, lambda: self.plain.commit(self.lab.now) and None
        )

    # --- the index -------------------------------------------------------------------------

    @step(
        event=st.sampled_from(["hold", "release", "look", "drain", "drain", "drain"]),
        crash=strategies.crashes,
    )
    def see_to_the_index(self, event: str, crash: Crash) -> None:
        """Whatever entries there are, and however late, no read is another for it."""
        self.both(getattr(self.lab.writer.index, event), lambda: None, crash)

    # --- life and death --------------------------------------------------------------------

    @step(
        way=st.sampled_from(["close", "exception", "death"]),
        record=st.none() | strategies.records,
        crash=strategies.crashes,
    )
    def end_and_open(self, way: str, record: Given | None, crash: Crash) -> None:
        """Closed, all is committed; after an exception all that was sealed; killed, adopted."""
        if record is not None:
            self.append(record, NO_CRASH)
        if way == "death":
            self.plain.begin_step()
            self.lab.kill()
            self.rise(crash)
            return
        if way == "exception":
            self.plain.discard_builder()
        end = self.lab.reopen if way == "close" else self.lab.leave_by_exception
        self.both(end, lambda: self.plain.commit(self.lab.now) and None, crash)

    @step(units=st.integers(0, 20))
    def let_time_pass(self, units: int) -> None:
        self.lab.let_pass(units)

    @step(shard=strategies.shard_numbers)
    def flush(self, shard: int) -> None:
        self.lab.flush(self.shard(shard).number)

    # --- steps that read -------------------------------------------------------------------

    @step(question=strategies.questions)
    def ask_writer(self, question: Question) -> None:
        """All rows were compared behind the last step that changed some."""
        check_question(in_ids(self.lab.writer, self.lab.options), self.plain, question)

    @step(question=strategies.questions, refreshes=st.booleans())
    def ask_reader(self, question: Question, refreshes: bool) -> None:
        """A reader shows what is committed when it is asked, refreshed or not."""
        reader, committed = self.lab.reader, self.plain.committed()
        if refreshes:
            assert reader.refresh() == committed
        assert reader.committed() == committed
        check_everything(in_ids(reader, self.lab.options), self.plain, question)
        check_schemas(reader, self.plain)
        for shard, end in committed.items():
            assert reader.wait(shard, end - 1, timeout=0)
            assert not reader.wait(shard, end, timeout=0)

    @step(reads_from_afar=st.booleans())
    def replace_reader(self, reads_from_afar: bool) -> None:
        self.lab.close_reader()
        self.lab.reads_from_afar = reads_from_afar

    @step(shard=strategies.shard_numbers, records=strategies.batches, asks_reader=st.booleans())
    def read_while_rows_come(self, shard: int, records: list[Given], asks_reader: bool) -> None:
        """A scan shows the moment it began in, whatever is committed meanwhile."""
        plain = self.shard(shard)
        if plain.refuses(None, None):
            return
        reads = self.lab.reader if asks_reader else self.lab.writer
        batches = in_ids(reads, self.lab.options).tail(plain.number)
        rows = rows_of(batch for batch in [next(batches, None)] if batch is not None)
        expected = plain.replayed()
        self.append_to_named_shard(shard, records, NO_CRASH)
        self.commit(NO_CRASH)
        assert rows + rows_of(batches) == expected

    @step()
    def verify(self) -> None:
        report = self.lab.writer.verify()
        rows = [row for shard in self.plain.shards for row in shard.visible()]
        assert report.is_clean, report.problems
        # Rows that are written and not committed are verified too.
        assert report.rows >= sum(len(shard.replayed()) for shard in self.plain.shards)
        assert report.late_rows >= sum(row.late for row in rows)

    @invariant()
    def stream_equals_lists(self) -> None:
        if self.has_changed:
            self.has_changed = False
            self.check_state()


def _refuse() -> None:
    raise RefusedError


def _flat(steps: list[Given | list[Given]]) -> list[Given]:
    return [one for step in steps for one in ([step] if isinstance(step, Given) else step)]


class TestModel(LogAgainstLists.TestCase):  # type: ignore[misc,valid-type]  # made by Hypothesis
    """Every example, and each kind of step in them."""

    settings = settings(max_examples=EXAMPLES, stateful_step_count=STEPS)

    def runTest(self) -> None:  # noqa: N802 - as unittest calls it
        for _ in range(RUNS_MAX):
            super().runTest()
            if all(steps_taken.values()):
                return
        never = [name for name, count in steps_taken.items() if not count]
        assert not never, "kinds of steps that no example took"
