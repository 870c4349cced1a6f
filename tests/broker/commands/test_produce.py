"""`shardlog produce` against a broker: all of it arrives, and what does not is told."""

import io
import json
import signal
import uuid

import pytest

from connectors.cli.input.generated_records import TelemetryPlan, generated_records
from connectors.kafka import Admin, Consumer, Partition, Place
from connectors.registry import RegistryClient, RegistrySettings
from storage_core import SystemClock
from tests.tidy.tree import ROOT
from tests.unit.connectors.command import runner
from tests.unit.connectors.records import Plain, plain
from tests.waiting import await_that

POLL_S = 0.1
# The broker's retention takes old records away whenever it comes by.
NOW_MS = SystemClock().now_ns() // 10**6


@pytest.fixture
def topic():
    return f"produce-{uuid.uuid4().hex}"


@pytest.fixture
def shardlog(capsys):
    return runner(capsys)


def consumed(broker: str, topic: str, count: int, partitions: int = 4) -> list[Plain]:
    """Consume so many records of a topic."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": topic})
    consumer.begin({Partition(topic, number): Place(0) for number in range(partitions)})
    records: list[Plain] = []

    def has_all() -> bool:
        for fetched, fault in consumer.fetch(1000, POLL_S):
            assert fault is None
            records.extend(plain(fetched))
        return len(records) >= count

    await_that(has_all, f"{count} records of {topic}")
    consumer.close()
    return records


def test_telemetry_arrives_as_planned_in_a_topic_made_for_it(shardlog, broker, topic):
    options = ("--records", 3000, "--devices", 50, "--late-share", 0.1, "--start-ms", NOW_MS)
    ran = shardlog("produce", topic, "--bootstrap", broker, "--partitions", 2, *options)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("3000 records acknowledged, 312000 bytes sent, ")
    plan = TelemetryPlan(3000, devices=50, late_share=0.1, start_ms=NOW_MS)
    records = consumed(broker, topic, 3000, partitions=2)
    arrived = [(each.key, each.value, each.timestamp, None) for each in records]
    assert sorted(arrived) == sorted(generated_records(plan))


def test_lines_arrive_with_key_timestamp_and_headers(shardlog, broker, topic, tmp_path):
    lines = tmp_path / "lines"
    first = {"key": 7, "value": None, "timestamp": NOW_MS, "headers": {"a": "b", "c": None}}
    lines.write_text(json.dumps(first))
    ran = shardlog("produce", topic, "--bootstrap", broker, "--partitions", 1, "--lines", lines)
    assert ran.code == 0
    (record,) = consumed(broker, topic, 1, partitions=1)
    assert (record.key, record.value, record.timestamp) == (b"\0\0\0\7", None, NOW_MS)
    assert record.headers == [("a", b"b"), ("c", None)]


def test_values_that_the_schema_cannot_write_leave_no_topic_behind(
    shardlog, broker, registry, topic, tmp_path
):
    client = RegistryClient(RegistrySettings.parse({"url": registry}))
    client.register(topic, (ROOT / "schemas/avro/devices/alarm.v1.avsc").read_text())
    command = ("produce", topic, "--bootstrap", broker, "--avro", "--registry", registry)
    lines = tmp_path / "lines"
    lines.write_text('{"value": {"device": 7}}\n')
    for more in ((), ("--lines", lines)):
        ran = shardlog(*command, "--subject", topic, *more)
        assert ran.code == 2
        assert "does not fit schema devices.Alarm" in ran.err
    assert topic not in Admin({"bootstrap.servers": broker}).partitions()


def test_a_bad_line_is_named_and_those_before_it_arrive(shardlog, broker, topic, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text('{"value": "one"}\n{"value": "two"}\nthree\n{"value": "four"}\n')
    ran = shardlog("produce", topic, "--bootstrap", broker, "--partitions", 1, "--lines", lines)
    assert ran.code == 2
    assert ran.out.startswith("2 records acknowledged")
    assert "line 3" in ran.err
    assert [each.value for each in consumed(broker, topic, 2, 1)] == [b"one", b"two"]


class Typist(io.BytesIO):
    """Somebody who presses Ctrl-C once all is typed."""

    def readline(self, size=-1, /):  # type: ignore[explicit-override]  # needs Python 3.12
        line = super().readline(size)
        if not line:
            signal.raise_signal(signal.SIGINT)
        return line


def test_ctrl_c_says_how_many_arrived(shardlog, broker, topic, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Typist(b'{"value": 1}\n{"value": 2}\n')))
    ran = shardlog("produce", topic, "--bootstrap", broker, "--lines", "-")
    assert ran.code == 130
    assert ran.out.startswith("2 records acknowledged")


def test_records_that_the_broker_refuses_are_counted(shardlog, broker, topic):
    Admin({"bootstrap.servers": broker}).create_topic(topic, 1, {"max.message.bytes": "1000"})
    options = ("--no-create", "--records", 3, "--value-bytes", 5000)
    ran = shardlog("produce", topic, "--bootstrap", broker, *options)
    assert ran.code == 3
    assert ran.out.startswith("0 records acknowledged")
    assert "3 of 3 records were not acknowledged" in ran.err
