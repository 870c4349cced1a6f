"""What is quarantined: told once, noted, tried again later and later; neighbours do not care."""

import pytest
from structlog.testing import CapturingLogger

from connectors.group.quarantine_notes import WHOLE_TOPIC, QuarantineNotes
from connectors.ingest.assignment.quarantine import TRY_AFTER_MAX_S, Quarantine
from connectors.kafka import Partition
from connectors.settings.options import FaultSettings
from storage_core import (
    ClientFailedError,
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    LostRangeError,
    ShardLockedError,
    ShardPoisonedError,
    UnsupportedFormatError,
)
from storage_core.testing import ManualClock

A, B, OTHER = Partition("orders", 0), Partition("orders", 1), Partition("clicks", 0)


class Bench:
    """Faults with all that they concern."""

    def __init__(self, root, on_fault="quarantine"):
        self.clock, self.log, self.mark = ManualClock(), CapturingLogger(), 1
        self.notes = QuarantineNotes(root)
        self.quarantine = Quarantine(
            FaultSettings.model_validate(on_fault), self.notes, self.mark_of, self.clock, self.log
        )

    def mark_of(self, _topic):
        return self.mark

    def due_at(self, elapsed_s):
        return self.quarantine.due(self.clock.monotonic_s() + elapsed_s)

    def noted(self):
        return [(note.stream, note.shard, note.kind) for note in self.notes.read()]

    def waits(self, error, times):
        """Let a partition fail so often; return how long it waits after each."""
        retried = []
        for _ in range(times):
            self.quarantine.add([A], error)
            waits = (wait for wait in range(1000) if self.due_at(wait) == A)
            retried.append(next(waits))
        return retried


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRequestError("key_mode"), "refused"),
        (ShardLockedError("held"), "unavailable"),
        (ForeignDataError("cut"), "foreign"),
        (LostRangeError("retention"), "out_of_range"),
        (CorruptionError("torn"), "damage"),
        (UnsupportedFormatError("newer"), "damage"),
        (ShardPoisonedError("full"), "write_failed"),
    ],
)
def test_each_kind_of_fault_stops_the_worker_only_where_its_setting_says_so(tmp_path, error, kind):
    others = {name: "stop" for name in FaultSettings.model_fields if name != kind}
    spared = Bench(tmp_path, others)
    spared.quarantine.add([A], error)
    assert spared.noted() == [("orders", 0, kind)]
    with pytest.raises(type(error)):
        Bench(tmp_path, {kind: "stop"}).quarantine.add([A], error)


def test_failure_of_the_worker_itself_is_never_set_aside(bench):
    with pytest.raises(ClientFailedError):
        bench.quarantine.add([A], ClientFailedError("fenced"))


def test_fault_of_many_partitions_is_told_in_one_line_and_once(bench):
    for _ in range(3):
        bench.quarantine.add([B, A], ForeignDataError("made anew", stream="orders"))
    (call,) = bench.log.calls
    assert (call.method_name, call.kwargs["topic"], call.kwargs["shards"]) == (
        "error",
        "orders",
        [0, 1],
    )


def test_fault_that_became_another_is_told_again(bench):
    bench.quarantine.add([A], ShardLockedError("held"))
    bench.quarantine.add([A], CorruptionError("torn"))
    assert [call.kwargs["kind"] for call in bench.log.calls] == ["unavailable", "damage"]


def test_it_is_tried_again_later_and_later_up_to_a_bound(bench):
    waits = bench.waits(ShardLockedError("held"), 8)
    assert waits == [5, 10, 20, 40, 80, 160, TRY_AFTER_MAX_S, TRY_AFTER_MAX_S]


def test_opening_alone_does_not_make_the_next_wait_short(bench):
    bench.waits(CorruptionError("unreadable"), 3)
    bench.quarantine.healed(A)
    assert bench.waits(CorruptionError("unreadable"), 1) == [40]


def test_partition_that_moved_begins_with_the_first_wait_again(bench):
    bench.waits(CorruptionError("unreadable"), 3)
    bench.quarantine.healed(A)
    bench.quarantine.moved([A])
    assert bench.waits(CorruptionError("unreadable"), 1) == [5]


def test_foreign_data_is_tried_again_only_when_its_stream_is_another_one(bench):
    bench.quarantine.add([A], ForeignDataError("cut"))
    assert bench.due_at(10_000) is None
    bench.mark = None
    assert bench.due_at(20_000) == A


def test_what_only_another_stream_can_mend_is_not_tried_before(bench):
    bench.quarantine.add([A], InvalidRequestError("dead letters only"), is_for_good=True)
    assert bench.due_at(10_000) is None
    bench.mark = 2
    assert bench.due_at(20_000) == A


def test_one_that_is_not_due_hides_no_other(bench):
    bench.quarantine.add([A], ForeignDataError("cut"))
    bench.quarantine.add([B], ShardLockedError("held"))
    assert bench.due_at(6) == B


def test_oldest_fault_stays_the_oldest_however_often_it_is_tried(bench):
    oldest = ForeignDataError("cut")
    bench.quarantine.add([A], oldest)
    bench.quarantine.add([B], ShardLockedError("held"))
    bench.quarantine.add([A], oldest)
    assert bench.quarantine.oldest is oldest


def test_healed_partition_is_forgotten_everywhere_and_its_topic_too(bench):
    bench.quarantine.add([A, B], ForeignDataError("cut"))
    bench.quarantine.add([Partition("orders", WHOLE_TOPIC)], InvalidRequestError("denied"))
    bench.quarantine.healed(A)
    assert list(bench.quarantine.partitions) == [B]
    assert bench.noted() == [("orders", 1, "foreign")]


def test_note_outlives_its_worker_and_the_partition_going_elsewhere(bench, tmp_path):
    bench.quarantine.add([OTHER, A], CorruptionError("torn"))
    bench.quarantine.forget([A])
    assert bench.quarantine.oldest is not None
    assert [note.stream for note in QuarantineNotes(tmp_path).read()] == ["clicks", "orders"]


def test_note_that_was_taken_away_returns_with_the_next_failure_and_its_first_time(bench):
    bench.quarantine.add([A], CorruptionError("torn"))
    (before,) = bench.notes.read()
    bench.notes.remove(A)
    bench.clock.advance(100)
    bench.quarantine.add([A], CorruptionError("torn"))
    assert list(bench.notes.read()) == [before]


def test_note_that_cannot_be_read_hides_no_other(bench, tmp_path):
    bench.quarantine.add([A], CorruptionError("torn"))
    (tmp_path / "~quarantine" / "clicks~0.json").write_text('{"stream": "clicks"')
    assert bench.noted() == [("orders", 0, "damage")]


def test_root_that_is_not_there_is_not_made_for_a_note(tmp_path):
    bench = Bench(tmp_path / "none")
    bench.quarantine.add([A], InvalidRequestError("refused"))
    assert bench.noted() == []
    assert not (tmp_path / "none").exists()


def test_note_that_the_disk_refuses_is_told_once_and_left_as_soon_as_it_is_taken(tmp_path):
    bench = Bench(tmp_path)
    (tmp_path / "~quarantine").write_text("in the way of a directory")
    bench.quarantine.add([A, B], CorruptionError("torn"))
    bench.quarantine.keep_noted([])
    assert bench.noted() == []
    events = [call.args[0] for call in bench.log.calls]
    assert events.count("quarantine not noted") == 1
    (tmp_path / "~quarantine").unlink()
    bench.quarantine.forget([B])
    bench.quarantine.keep_noted([])
    assert bench.noted() == [("orders", 0, "damage")]
