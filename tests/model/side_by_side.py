"""How one step is done to a stream and to its lists, and what may come of it.

Nothing here knows which steps there are; test_model.py does.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import wraps
from itertools import product
from typing import Any, Final

import pytest
from hypothesis import note
from hypothesis.stateful import RuleBasedStateMachine, rule

from storage_core import AppendReport, InvalidRequestError, StreamOptions
from tests.lab import Lab, replayed
from tests.model.answers import check_rows, check_schemas
from tests.model.keyed import has_keys, in_ids
from tests.model.plain_shard import PlainShard, RefusedError
from tests.model.plain_stream import PlainStream
from tests.strategies import Crash, Given

REFUSED: Final = "refused"
NO_CRASH: Final = Crash()
# How often each kind of step was taken, in all examples.
steps_taken: Final[dict[str, int]] = {}


def step(**drawn: Any) -> Callable[[Callable[..., None]], Any]:
    """Make a method a kind of step, as `rule` does, and count how often it is taken."""

    def made(method: Callable[..., None]) -> Any:
        name = method.__name__
        steps_taken[name] = 0

        @wraps(method)
        def counted(*arguments: Any, **drawn_now: Any) -> None:
            steps_taken[name] += 1
            method(*arguments, **drawn_now)

        return rule(**drawn)(counted)

    return made


class SideBySide(RuleBasedStateMachine):
    """A stream in its lab, and the lists."""

    def __init__(self) -> None:
        super().__init__()
        self.lab: Lab
        self.plain: PlainStream
        self.has_changed = True

    def begin(self, options: StreamOptions, crash: Crash) -> None:
        """Create both."""
        self.lab = Lab(options)
        self.plain = PlainStream(options)
        self.both(self.lab.create, lambda: None, crash)

    def teardown(self) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
        if hasattr(self, "lab"):
            self.lab.clean_up()

    def shard(self, number: int) -> PlainShard:
        """Return a shard, counted around their number."""
        return self.plain.shards[number % len(self.plain.shards)]

    def fitting(self, shard: PlainShard, records: Sequence[Given]) -> list[Given]:
        """Return the records that a caller may name a shard for: of keys those that route there."""
        if not has_keys(self.lab.options):
            return [*records]
        return [one for one in records if self.plain.shard_of(one.secondary) is shard]

    def both(
        self,
        real: Callable[[], object],
        plain: Callable[[], object],
        crash: Crash = NO_CRASH,
        on_crash: Callable[[], object] = lambda: None,
    ) -> None:
        """Do a step to the lists and to the stream; they answer alike, or the process dies."""
        self.has_changed = True
        self.plain.begin_step()
        expected = _answer(plain)
        self.lab.arm(crash)
        answers: list[object] = []
        if self.lab.dies(lambda: answers.append(_answer(real)), crash.file_call):
            on_crash()
            self.lab.bury()
            self.rise(crash)
        else:
            assert answers == [expected]
            self.lab.disarm()
            self.take_over_interval()

    def check_state(self) -> None:
        """Compare what a stream says of itself, all rows in order, and all in replay."""
        writer, plain = self.lab.writer, self.plain
        assert writer.committed() == plain.committed()
        assert self.counted() == plain.counts()
        assert [writer.source(shard.number) for shard in plain.shards] == [
            shard.source for shard in plain.shards
        ]
        assert not any(writer.lost_ranges().values())
        check_rows(in_ids(writer, self.lab.options), plain)
        check_schemas(writer, plain)

    def rise(self, crash: Crash) -> None:
        """Open after a crash, perhaps dying again at it, and find a state the lists passed."""
        self.has_changed = True
        self.check_reader_of_the_dead()
        for call in (*crash.again, 0):
            self.lab.arm(Crash(crash.shard, call))
            if not self.lab.dies(self.lab.open):
                break
            self.lab.bury()
            self.check_reader_of_the_dead()
        self.lab.disarm()
        self.adopt()

    def adopt(self) -> None:
        """Go on from the one state that each shard was found in."""
        states_of_shards = [self.states_found(shard) for shard in self.plain.shards]
        for states in product(*states_of_shards):
            if sum((state.counts for state in states), Counter()) == self.counted():
                self.plain.shards = list(states)
                for shard in self.plain.shards:
                    self.take_over_expiry(shard)
                return
        note(f"counted {self.counted()}")
        pytest.fail("the counters are of no state that a crash may leave")

    def states_found(self, shard: PlainShard) -> list[PlainShard]:
        """Return which of the states a crash may leave a shard is in."""
        writer, number = self.lab.writer, shard.number
        rows, gone = replayed(in_ids(writer, self.lab.options), number)
        position = (rows, writer.committed()[number], writer.source(number))
        states = shard.after_crash()
        for state in states:
            state.gone = gone
        matching = [
            state for state in states if (state.replayed(), state.next, state.source) == position
        ]
        if not matching:
            note(f"found {position}")
            note("legal " + "\n      ".join(str((s.rows, s.next, s.source)) for s in states))
        assert matching, f"shard {number} is in no state that a crash may leave"
        return matching

    def check_reader_of_the_dead(self) -> None:
        """A reader of a dead writer shows what that one had published, not a row more."""
        if not self.lab.has_reader:
            return
        published = self.lab.reader.refresh()
        for shard in self.plain.shards:
            end = published[shard.number]
            rows, gone = replayed(in_ids(self.lab.reader, self.lab.options), shard.number)
            legal = []
            for state in shard.passed:
                if end in state.ends:
                    at_end = state.copy()
                    at_end.committed, at_end.gone = end, gone
                    legal.append(at_end.replayed())
            assert rows in legal

    def take_over_interval(self) -> None:
        """At sync level `interval` appends commit when they are due: any state passed is right."""
        if self.lab.options.sync == "interval":
            for shard in self.plain.shards:
                end = self.lab.writer.committed()[shard.number]
                ends = [state.next for state in shard.passed if state.next >= shard.committed]
                assert end in [shard.committed, *ends]
                shard.committed = end

    def take_over_expiry(self, shard: PlainShard) -> None:
        """Go on from where expiry has come to: at most to what it was told."""
        floor = self.lab.floor(shard.number)
        assert floor <= shard.floor
        _, gone = replayed(in_ids(self.lab.writer, self.lab.options), shard.number)
        shard.cut = min(shard.cut, self.lab.cut(shard.number))
        shard.release(gone)
        shard.floor = floor

    def counted(self) -> Counter[str]:
        """Return the stream's counters under the lists' names."""
        stats = self.lab.writer.stats()
        return +Counter(
            appended=stats.records,
            late=stats.late_arrivals,
            absorbed=stats.jitter_absorbed,
            ahead=stats.ahead,
            expired=stats.expired,
            duplicates=stats.duplicates,
        )


def _answer(call: Callable[[], object]) -> object:
    """Return what a call answers in plain values; a refusal is an answer."""
    try:
        answer = call()
    except (InvalidRequestError, RefusedError):
        return REFUSED
    if isinstance(answer, AppendReport):
        answer = Counter(asdict(answer))
    return +answer if isinstance(answer, Counter) else answer
