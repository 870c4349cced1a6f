"""Files by which commands and workers of a root meet: whole, read again only after a change."""

import pytest

from connectors.group import WHOLE_TOPIC, Pause, Pauses, RetryRequests
from connectors.group.pauses import PauseWatch
from connectors.kafka import Partition
from storage_core import SystemClock, UnavailableError

A, B = Partition("t", 0), Partition("t", 1)


def now_ns():
    return SystemClock().now_ns()


def test_pause_of_a_partition_holds_for_it_alone(tmp_path):
    pauses = Pauses(tmp_path)
    pauses.write(Pause("t", 0, 5, "why"))
    assert pauses.of(A) == Pause("t", 0, 5, "why")
    assert pauses.of(B) is None


def test_pause_of_a_stream_holds_for_each_partition_of_it(tmp_path):
    pauses = Pauses(tmp_path)
    pauses.write(Pause("t", WHOLE_TOPIC, 5))
    assert pauses.of(A) == pauses.of(B) == Pause("t", WHOLE_TOPIC, 5)
    assert pauses.of(Partition("t2", 0)) is None


def test_pause_that_is_there_keeps_its_time_and_its_reason(tmp_path):
    pauses = Pauses(tmp_path)
    pauses.write(Pause("t", 0, 5, "first"))
    pauses.write(Pause("t", 0, 6, "second"))
    assert pauses.read() == [Pause("t", 0, 5, "first")]
    assert (pauses.remove(A), pauses.remove(A), pauses.read()) == (True, False, [])


def test_watch_sees_each_change_however_soon_it_follows_another(tmp_path):
    pauses, watch = Pauses(tmp_path), PauseWatch(tmp_path)
    for turn in range(200):
        pauses.write(Pause("t", 0, turn))
        watch.look(now_ns())
        assert watch.of(A) == Pause("t", 0, turn)
        pauses.remove(A)
        watch.look(now_ns())
        assert watch.of(A) is None
    assert watch.version == 400


def test_watch_reads_nothing_while_nothing_changes(tmp_path):
    pauses, watch = Pauses(tmp_path), PauseWatch(tmp_path)
    pauses.write(Pause("t", 0, 5))
    later_ns = now_ns() + 10**9
    watch.look(later_ns)
    place = tmp_path / "~paused" / "t~0.json"
    # A file's own times are not the directory's.
    place.write_text(place.read_text().replace('"t"', '"other"'))
    watch.look(later_ns)
    assert watch.of(A) is not None


def test_pause_that_cannot_be_removed_is_told(tmp_path):
    (tmp_path / "~paused").mkdir()
    (tmp_path / "~paused" / "t~0.json").mkdir()
    with pytest.raises(UnavailableError, match="what is paused cannot be written"):
        Pauses(tmp_path).remove(A)


def test_request_is_taken_once_by_who_can_try_it(tmp_path):
    requests, worker = RetryRequests(tmp_path), RetryRequests(tmp_path)
    assert worker.taken([A, B], now_ns()) == []
    requests.write(A)
    assert worker.taken([B], now_ns()) == []
    assert worker.taken([A, B], now_ns()) == [A]
    assert (requests.has(A), requests.withdraw(A)) == (False, False)
    assert worker.taken([A, B], now_ns()) == []
