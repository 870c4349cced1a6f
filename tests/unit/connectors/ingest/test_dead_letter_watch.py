"""Dead letters are told when they come, and a stream that gets nothing else is refused."""

import pytest
from structlog.testing import CapturingLogger

from connectors.dlq.record import advice_for, decode_dead_letter
from connectors.ingest.dead_letter_watch import LOG_EVERY_S, DeadLetterWatch
from connectors.kafka import Partition
from connectors.settings.stream_settings import MappingRules
from storage_core import InvalidRequestError
from tests.unit.connectors.records import record, shard_records
from tests.unit.connectors.writers import TOPIC, open_writers

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)
ONLY_MAX = 3


@pytest.fixture
def log():
    return CapturingLogger()


@pytest.fixture
def watch(log):
    return DeadLetterWatch(ONLY_MAX, log)


def mapped(*messages, rules=None):
    ((_, records),) = shard_records(list(messages), rules or MappingRules())
    return records


def letters(*offsets):
    return mapped(*[record(offset, key=b"user-1") for offset in offsets]).dead_letters


def logged(log):
    return [
        (call.kwargs["topic"], call.kwargs["new"], call.kwargs["total"])
        for call in log.calls
        if call.args == ("dead letters",)
    ]


def test_those_that_follow_are_counted_and_told_every_ten_seconds(watch, log):
    watch.note({A: letters(1)}, 0.0)
    watch.note({A: letters(2, 3)}, 1.0)
    watch.note({B: letters(1)}, LOG_EVERY_S - 0.1)
    assert logged(log) == [(TOPIC, 1, 1)]
    watch.tick(LOG_EVERY_S)
    watch.tick(LOG_EVERY_S * 9)
    assert logged(log) == [(TOPIC, 1, 1), (TOPIC, 3, 4)]


def test_stream_of_dead_letters_only_is_refused_with_what_to_set(watch, tmp_path):
    with open_writers(tmp_path, 2) as writers:
        for partition, offsets in ((A, (0, 1)), (B, (0,))):
            records = mapped(*[record(offset, key=b"user-1") for offset in offsets])
            writers[partition].append(records, records.end)
            watch.note({partition: records.dead_letters}, 0.0)
        with pytest.raises(InvalidRequestError, match=r"key_mode.*dead_letters_only_max"):
            watch.refuse_topics_of_nothing_else([A], writers)


def test_stream_that_has_stored_a_record_is_not_refused(watch, tmp_path):
    with open_writers(tmp_path, 2) as writers:
        records = mapped(*[record(offset, key=b"user-1") for offset in range(9)], record(9))
        writers[A].append(records, records.end)
        watch.refuse_topics_of_nothing_else([A], writers)


@pytest.mark.parametrize("only_max", [0, 10])
def test_fewer_than_the_bound_and_no_bound_go_on(log, tmp_path, only_max):
    watch = DeadLetterWatch(only_max, log)
    with open_writers(tmp_path, 1) as writers:
        records = mapped(*[record(offset, key=b"user-1") for offset in range(9)])
        writers[A].append(records, records.end)
        watch.note({A: records.dead_letters}, 0.0)
        watch.refuse_topics_of_nothing_else([A], writers)


@pytest.mark.parametrize(
    ("message", "rules", "setting"),
    [
        (record(0, key=b"text"[:3]), MappingRules(), "key_mode"),
        (record(0, key=None), MappingRules(null_key="dead-letter"), "null_key"),
        (record(0, value=b"12"), MappingRules(payload_bytes_max=1), "payload_bytes_max"),
        (record(0, timestamp=(0, -1)), MappingRules(), "primary"),
    ],
)
def test_every_reason_that_a_setting_cures_names_it(message, rules, setting):
    (raw,) = mapped(message, rules=rules).dead_letters.values()
    assert f"stream.{setting}" in (advice_for(decode_dead_letter(raw).reason) or "")
