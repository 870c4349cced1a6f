"""Goal: whatever bytes a producer writes, the compiled fetch loses no header and makes none up.

Method: keys, values and headers that look like records themselves, numbers longer than they have
to be, and attributes that nobody uses are sent byte by byte; what is read is held against what was
written.
"""

from random import Random

import pytest

from connectors.kafka.native_library import Refusal, load
from tests.broker.support.lab import CLOCK, Lab
from tests.broker.support.raw_batches import RawRecord, encoded, send_batch
from tests.broker.worker.test_fetch_ways import expect_equal

NATIVE = load()
BATCHES = 150
pytestmark = pytest.mark.skipif(
    isinstance(NATIVE, Refusal), reason=NATIVE.reason if isinstance(NATIVE, Refusal) else ""
)


def any_record(chance: Random) -> RawRecord:
    """Return a record whose every part may look like a record, or the end or beginning of one."""
    sizes = (1, 50, 51, 52, 53, 54, 55, 56, 57, 60, 100, 8170, 8180)
    alike = encoded(RawRecord(chance.randbytes(4), bytes(chance.choice(sizes[:-2]))), 0)
    parts = (None, b"", alike, alike[: chance.randrange(12)], bytes(chance.randrange(20)))
    headers = chance.choices(
        (("", alike), ("h", None), ("h", b"\0")), k=chance.choice((0, 0, 1, 2))
    )
    value = chance.choice((*parts, alike * 2, bytes(chance.choice(sizes))))
    return RawRecord(chance.choice((*parts, b"\1\2\3\4", b"\1\2\3\4")), value, headers)


def test_headers_are_what_was_written_whatever_bytes_are_around_them(lab: Lab) -> None:
    topic, sent = lab.topic(partitions=1, retention_ms="-1"), list[RawRecord]()
    # A raw request is not sent again if the topic has no leader yet.
    lab.produce(topic, 1, partition=0)
    for number in range(BATCHES):
        own = [any_record(lab.chance) for _ in range(lab.chance.choice((1, 2, 3, 30)))]
        odd = lab.chance if number % 2 else None
        written = [encoded(record, at, odd) for at, record in enumerate(own)]
        now_ms = CLOCK.now_ns() // 10**6
        send_batch(lab.bootstrap, topic.name, written, is_packed=number % 3 == 0, time_ms=now_ms)
        sent += own
    read = expect_equal(lab, topic, 1 + len(sent))
    for row, record in zip(read.rows()[1:], sent, strict=True):
        headers = [(each["key"], each["value"]) for each in row[5] or ()]
        assert (row[3], row[4], headers) == (record.key, record.value, list(record.headers))
