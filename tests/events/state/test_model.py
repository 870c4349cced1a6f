"""State against a plain dict, under random commands, steps of the clock, crashes and reopenings.

Goal: at each moment QUERY has the rows of a dict that forgets what is past its TTL.

Method: a Hypothesis state machine over one store with one type of state. A command is done to the
dict and to the store; the clock is turned by hand, from a second to more than the TTL; expiry runs
when chance has it. The process may die before any writing call of a batch; then of each context all
of it is there or nothing, and the dict follows what is found.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from storage_core.platform.overriding import override
from tests.events.state.rows import TTL_S, Rows, StateBench, delete_text, put_text
from tests.log.fixtures import MEMORY
from tests.thin import rounds

EXAMPLES = rounds("SHARDLOG_FAULT_EVENTS", few=5, many=200)
TTL_US = TTL_S * 10**6
CONTEXTS = ("ann", "bob")
# A context, a row id, and its value; None deletes it.
Change = tuple[str, str, int | None]
changes = st.tuples(
    st.sampled_from(CONTEXTS), st.sampled_from(["", "a", "b"]), st.none() | st.integers(0, 9)
)


class PlainState:
    """Rows by context and row id: value and time of storing."""

    def __init__(self, rows: Mapping[tuple[str, str], tuple[int | None, int]], last: int) -> None:
        self._rows = dict(rows)
        self.last = last

    def changed(self, batch: Sequence[Change], now_us: int) -> "PlainState":
        """Return what is there behind changes."""
        after = PlainState(self._rows, self.last)
        for context, row, value in batch:
            after.last = max(now_us, after.last + 1)
            after._rows[context, row] = value, after.last
        return after

    def alive(self, now_us: int) -> Rows:
        return sorted(
            (context, row, value)
            for (context, row), (value, time) in self._rows.items()
            if value is not None and time >= now_us - TTL_US
        )


class StateAgainstDict(RuleBasedStateMachine):
    """Commands, done to both."""

    def __init__(self) -> None:
        """Begin without rows."""
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.bench = StateBench(Path(self._folder.name) / "root")
        self.plain = PlainState({}, 0)
        self.stored = 0

    @override
    def teardown(self) -> None:
        """Remove the store."""
        self.bench.close()
        self._folder.cleanup()

    @property
    def now_us(self) -> int:
        return self.bench.clock.now_ns() // 1000

    @rule(change=changes)
    def change(self, change: Change) -> None:
        """Do a STORE or a DELETE."""
        self.bench.well(text_of(change))
        self.plain = self.plain.changed([change], self.now_us)

    @rule(batch=st.lists(changes, min_size=1, max_size=5))
    def batch(self, batch: list[Change]) -> None:
        """Do a BATCH; contexts are stored in the order of their first change."""
        self.bench.well(batch_of(batch))
        self.plain = self.plain.changed(by_context(batch), self.now_us)

    @rule(batch=st.lists(changes, min_size=1, max_size=3), call=st.integers(1, 6))
    def crash_in_batch(self, batch: list[Change], call: int) -> None:
        """Let the process die at a call of a BATCH of one context; follow what is found."""
        batch = [("ann", row, value) for _, row, value in batch]
        self.bench.disk.crash_at = self.bench.disk.calls + call
        self.bench.do(batch_of(batch))
        self.bench.crash()
        # It opens the streams, and finishes what was left.
        self.bench.store_of_events.maintain()
        after = self.plain.changed(batch, self.now_us)
        if self.bench.start_and_end("cursor")[1] > self.stored:
            self.plain = after

    @rule(seconds=st.sampled_from([1, 60, TTL_S - 1, TTL_S, TTL_S + 1, 3 * TTL_S]))
    def advance(self, seconds: int) -> None:
        """Let time pass."""
        self.bench.clock.advance(seconds)

    @rule()
    def expire(self) -> None:
        """Let go of what is past its time."""
        self.bench.store_of_events.maintain()

    @rule()
    def reopen(self) -> None:
        """Close the store and open it again."""
        self.bench.reopen()

    @invariant()
    def rows_are_those_of_the_dict(self) -> None:
        """Compare all rows, those of a context, and a figure."""
        expected = self.plain.alive(self.now_us)
        assert sorted(self.bench.rows()) == expected
        assert sorted(self.bench.rows("FOR ann")) == [row for row in expected if row[0] == "ann"]
        assert self.bench.figure("COUNT") == len(expected)
        self.stored = self.bench.start_and_end("cursor")[1]


def text_of(change: Change) -> str:
    context, row, value = change
    if value is None:
        return delete_text(context, row)
    return put_text(context, row, value)


def batch_of(batch: Sequence[Change]) -> str:
    return f"BATCH [ {'; '.join(map(text_of, batch))} ]"


def by_context(batch: Sequence[Change]) -> list[Change]:
    contexts = dict.fromkeys(change[0] for change in batch)
    return [change for context in contexts for change in batch if change[0] == context]


def test_state_answers_as_a_plain_dict_does() -> None:
    run_state_machine_as_test(
        StateAgainstDict,
        settings=settings(max_examples=EXAMPLES, stateful_step_count=15, deadline=None),
    )
