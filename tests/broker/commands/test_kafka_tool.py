"""Goal: what `shardlog group` says of a group is what Kafka's own tool says of it.

Method: `kafka-consumer-groups` and ours on the same group of a real worker: offsets, ends, lag and
members while it runs, with a transaction that nobody ends; then the dry run of each target, within
the log and beyond both of its ends, on a log whose start was deleted.
"""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from connectors.kafka import Partition
from tests.broker.support.cluster import LONGEST_TRANSACTION_MS, Transactions
from tests.broker.support.kafka_tool import KafkaTool
from tests.broker.support.lab import Lab, Topic
from tests.thin import EVERY_CASE
from tests.unit.connectors.command import Shardlog, runner
from tests.waiting import await_that

pytestmark = pytest.mark.skipif(not EVERY_CASE, reason="fetches a jar: make faults KIND=tool")

START = 30
RECORDS = {0: 100, 1: 60}
TARGETS: list[list[str]] = [
    ["--to-earliest"],
    ["--to-latest"],
    ["--to-offset", "45"],
    ["--to-offset", "0"],
    ["--to-offset", "80"],
    ["--to-offset", "1000000"],
    ["--shift-by", "-10"],
    ["--shift-by", "-1000000"],
    ["--shift-by", "5"],
    ["--by-duration", "PT1H"],
    ["--by-duration", "PT0S"],
    ["--to-datetime", "{middle}"],
    ["--to-datetime", "2001-01-01T00:00:00.000"],
    ["--to-datetime", "2101-01-01T00:00:00.000"],
]


@pytest.fixture
def shardlog(capsys: pytest.CaptureFixture[str]) -> Shardlog:
    return runner(capsys)


def said_of(shardlog: Shardlog, lab: Lab, topic: Topic, *arguments: object) -> list[dict[str, Any]]:
    """Return what one of our commands says of a stream's group, as JSON."""
    verb, *options = arguments
    names = (f"--bootstrap={lab.bootstrap}", f"--group={topic.name}", "--json")
    ran = shardlog("group", verb, lab.root, topic.name, *names, *options)
    assert ran.out, ran
    lines: list[dict[str, Any]] = json.loads(ran.out)
    return lines


def stored_topic(lab: Lab) -> Topic:
    topic = lab.topic(partitions=len(RECORDS))
    for partition, records in RECORDS.items():
        lab.produce(topic, records, partition=partition)
    return topic


def test_offsets_lag_and_members_are_those_of_kafkas_tool(lab: Lab, shardlog: Shardlog) -> None:
    topic = stored_topic(lab)
    transactions = Transactions(lab.bootstrap, f"{topic.name}-open", LONGEST_TRANSACTION_MS)
    transactions.leave_open(topic.name, [(None, b"x")] * 9)
    worker, tool = lab.worker(topic), KafkaTool(lab.bootstrap, topic.name)
    worker.await_event("partition opened", len(RECORDS))

    def ours() -> dict[str, Any]:
        return {
            str(line["partition"]): tuple(
                str(line[name])
                for name in ("group_offset", "log_end_offset", "lag", "member_id", "client_id")
            )
            for line in said_of(shardlog, lab, topic, "describe")
        }

    def theirs() -> dict[str, Any]:
        columns = ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "CLIENT-ID")
        return {
            line["PARTITION"]: tuple(line[name] for name in columns) for line in tool.describes()
        }

    await_that(lambda: theirs() == ours(), lambda: f"{theirs()} == {ours()}")
    assert {lag for _, _, lag, *_ in ours().values()} != {"0"}
    (member,) = said_of(shardlog, lab, topic, "describe", "--members")
    (their_member,) = tool.describes("--members")
    assert their_member["CONSUMER-ID"] == member["member_id"]
    assert their_member["CLIENT-ID"] == member["client_id"]
    assert their_member["HOST"] == f"/{member['host']}".replace("//", "/")
    assert their_member["#PARTITIONS"] == str(len(member["partitions"]))
    assert worker.stop() == 0, worker.said()


def test_dry_run_of_each_target_is_that_of_kafkas_tool(lab: Lab, shardlog: Shardlog) -> None:
    topic = stored_topic(lab)
    worker, tool = lab.worker(topic), KafkaTool(lab.bootstrap, topic.name)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    lab.cluster.delete_records(Partition(topic.name, 0), START)
    middle_ms = topic.holds()[0][15][3]
    middle = datetime.fromtimestamp(middle_ms / 1000, UTC).isoformat(timespec="milliseconds")
    differ = {}
    for target in TARGETS:
        words = [word.replace("{middle}", middle.removesuffix("+00:00")) for word in target]
        theirs = tool.would_reset(topic.name, words)
        plans = said_of(shardlog, lab, topic, "reset", "=".join(words))
        ours = {plan["partition"]: plan["new_offset"] for plan in plans}
        assert set(theirs) == set(RECORDS)
        if ours != theirs:
            differ[" ".join(words)] = (ours, theirs)
    assert differ == {}


def test_reset_group_is_seen_by_kafkas_tool(lab: Lab, shardlog: Shardlog) -> None:
    topic = stored_topic(lab)
    worker, tool = lab.worker(topic), KafkaTool(lab.bootstrap, topic.name)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    said_of(shardlog, lab, topic, "reset", "--to-offset=45", "--execute")
    offsets = {line["PARTITION"]: line["CURRENT-OFFSET"] for line in tool.describes()}
    assert offsets == {"0": "45", "1": "45"}
