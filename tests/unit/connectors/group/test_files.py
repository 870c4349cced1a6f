"""Files by which commands and workers of a root meet: whole, read again only after a change."""

import json
import os

import pytest

from connectors.group import WHOLE_TOPIC, Pause, Pauses, QuarantineNotes, RetryRequests
from connectors.group.pauses import PauseWatch
from connectors.group.rewinds import Rewinds
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


def test_watch_that_was_late_to_look_sees_what_followed_in_the_same_tick(tmp_path):
    pauses, watch = Pauses(tmp_path), PauseWatch(tmp_path)
    pauses.write(Pause("t", 0, 5))
    times = (tmp_path / "~paused").stat()
    # The time was taken, and then the processor was somebody else's.
    watch.look(times.st_mtime_ns - 10**9)
    pauses.remove(A)
    os.utime(tmp_path / "~paused", ns=(times.st_atime_ns, times.st_mtime_ns))
    watch.look(times.st_mtime_ns + 10**9)
    assert watch.of(A) is None


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


def test_request_for_what_is_quarantined_only_later_is_taken_then(tmp_path):
    requests, worker = RetryRequests(tmp_path), RetryRequests(tmp_path)
    requests.write(A)
    later_ns = now_ns() + 10**9
    assert worker.taken([B], later_ns) == []
    assert worker.taken([A, B], later_ns) == [A]
    assert worker.taken([A, B], later_ns) == []


# What may stand where a time does, in a file that somebody has changed.
NO_TIMES = [float("inf"), float("nan"), 10**17, -(10**17), "soon"]
OTHERS = {"kind": "damage", "reason": "why", "until": 5, "incarnation": "a"}


@pytest.mark.parametrize("since_ms", NO_TIMES)
def test_file_whose_time_is_none_is_no_note_and_yet_a_pause(tmp_path, since_ms):
    for directory in ("~paused", "~quarantine", "~rewinding"):
        (tmp_path / directory).mkdir()
        content = {"stream": "t", "shard": 0, "since_ms": since_ms, **OTHERS}
        (tmp_path / directory / "t~0.json").write_text(json.dumps(content))
    (pause,) = Pauses(tmp_path).read()
    assert (pause.partition, "its file cannot be read" in pause.line()) == (A, True)
    assert [note.line() for note in QuarantineNotes(tmp_path).read()] == []
    assert Rewinds(tmp_path).read() == {}


def test_file_of_too_many_brackets_is_a_pause(tmp_path):
    (tmp_path / "~paused").mkdir()
    (tmp_path / "~paused" / "t~0.json").write_text("[" * 100_000)
    assert [pause.partition for pause in Pauses(tmp_path).read()] == [A]


@pytest.mark.parametrize("number", [WHOLE_TOPIC, 0, 99_999])
@pytest.mark.parametrize("length", [240, 249])
def test_topic_of_the_longest_name_that_kafka_takes_is_paused(tmp_path, number, length):
    pauses, longest = Pauses(tmp_path), Partition("t." * (length // 2) + "t" * (length % 2), number)
    assert len(longest.topic) == length
    pauses.write(Pause(*longest, 5, "why"))
    assert pauses.read() == [Pause(*longest, 5, "why")]
    assert (pauses.remove(longest), pauses.read()) == (True, [])
    requests = RetryRequests(tmp_path)
    requests.write(longest)
    assert requests.taken([longest], now_ns()) == [longest]


def test_file_that_cannot_be_looked_for_is_not_there(tmp_path):
    nowhere = Partition("t" * 300, 0)
    assert not RetryRequests(tmp_path).has(nowhere)
    Rewinds(tmp_path).settle(nowhere, 5)


def test_files_are_for_whom_the_root_is_whoever_writes_them(tmp_path):
    """An operator's command may run as root, and keep what it makes to itself."""
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(root, 65534, 65534)
    usual = os.umask(0o077)
    try:
        Pauses(root).write(Pause("t", 0, 5))
        RetryRequests(root).write(A)
    finally:
        os.umask(usual)
    whose = root.stat()
    for directory in ("~paused", "~retry"):
        made, (file,) = (root / directory).stat(), (root / directory).iterdir()
        assert (made.st_mode, made.st_uid, made.st_gid) == (
            whose.st_mode,
            whose.st_uid,
            whose.st_gid,
        )
        assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o640, whose.st_uid)
