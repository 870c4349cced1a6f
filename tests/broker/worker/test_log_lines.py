"""What a worker says of itself while it runs, and when it ends."""

import json

import pytest

from connectors.cli.exit_codes import EXIT_USAGE
from connectors.cli.version import installed_version
from tests.broker.support.cluster import Transactions
from tests.broker.support.lab import CLOCK, Lab, Topic
from tests.unit.connectors.command import runner
from tests.waiting import await_that

HOUR_MS = 3_600_000


def test_worker_says_what_it_is_and_how_it_gets_on(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 1000)
    worker = lab.worker(topic, as_people_do=True)

    def has_caught_up() -> bool:
        worker.ask_progress()
        lines = worker.events("progress")
        return bool(lines) and (lines[-1]["appended"], lines[-1]["lag"]) == (1000, 0)

    worker.await_event("partition opened", 2)
    await_that(has_caught_up, "a line that says so")
    (started,), (*_, progress) = worker.events("started"), worker.events("progress")
    assert started["version"] == installed_version()
    assert (started["brokers"], started["group"]) == (lab.bootstrap, topic.name)
    assert started["root"] == str(lab.root)
    assert progress["shards"] == 2
    assert 0 < progress["late"] < 40


def test_line_that_ends_a_failed_run_has_the_form_of_the_others(lab: Lab) -> None:
    worker = lab.worker(lab.topic(), kafka__session__timeout__ms=1)
    assert worker.exit_code() == EXIT_USAGE, worker.said()
    ended = json.loads(worker.complaint())
    assert (ended["event"], ended["exit_code"]) == ("failed", EXIT_USAGE)
    assert "session.timeout.ms" in ended["reason"]


def test_status_shows_log_end_and_lag(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 100)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    worker.stop()
    lab.produce(topic, 7)
    shardlog = runner(capsys)
    ran = shardlog("status", lab.root, topic.name, "--json", "--bootstrap", lab.bootstrap)
    (((shard,),),) = [ran.json_lines]
    assert (shard["next_offset"], shard["log_end"], shard["lag"]) == (100, 107, 7)


def test_status_shows_what_an_open_transaction_holds_back_and_a_topic_that_is_gone(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, gone = lab.topic(partitions=1), lab.topic(partitions=1)
    for subscribed in (topic, gone):
        lab.produce(subscribed, 100)
    worker = lab.worker(topic, gone)
    for subscribed in (topic, gone):
        lab.await_no_lag(subscribed)
    assert worker.stop() == 0
    lab.cluster.delete_topic(gone.name)
    await_that(lambda: gone.name not in lab.admin.partitions(), "the topic is gone")
    hanging = Transactions(lab.bootstrap, topic.name)
    hanging.leave_open(topic.name, [(None, b"%d" % number) for number in range(901)])
    ran = runner(capsys)("status", lab.root, "--json", "--bootstrap", lab.bootstrap)
    ((of_topic, of_gone),) = ran.json_lines
    names = ("next_offset", "last_stable_offset", "log_end", "held_back", "lag", "lag_unknown")
    assert [of_topic[name] for name in names] == [100, 100, 1001, 901, 901, None]
    assert [of_gone[name] for name in names[1:5]] == [None, None, 0, None]
    assert "was deleted" in of_gone["lag_unknown"]
    held, unknown = ran.err.splitlines()
    assert f"{topic.name} shard 0: an open transaction holds back 901 offsets" in held
    assert f"{gone.name}: lag is not known: the cluster has no topic" in unknown
    assert ran.code == 0


def test_setting_that_does_not_count_for_a_stream_is_told_with_both_values(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    worker = lab.worker(topic)
    worker.await_event("partition opened", 2)
    assert worker.stop() == 0
    assert worker.events("setting ignored") == []
    again = lab.worker(topic, stream__jitter_ms=500)
    again.await_event("partition opened", 2)
    (warning,) = again.events("setting ignored")
    assert (warning["setting"], warning["wanted"], warning["in_force"]) == (
        "stream.jitter_ms",
        500,
        0,
    )


def send(lab: Lab, topic: Topic, first: int, first_ms: int, count: int) -> None:
    """Produce numbered records from a time on, and wait until they are stored."""
    with lab.producer() as producer:
        for number in range(first, first + count):
            key, stamp = (number % 7).to_bytes(4, "big"), first_ms + number
            producer.send(topic.name, key, b"%d" % number, stamp, None, 0)
    lab.await_committed(topic, first + count)


def test_worker_lets_what_is_too_old_expire_and_tells_what_went(lab: Lab) -> None:
    topic, now_ms = lab.topic(partitions=1), CLOCK.now_ns() // 10**6
    keeping = lab.worker(topic, stream__retention_hours=1, expire_every_s=0)
    send(lab, topic, 0, now_ms - 3 * HOUR_MS, 300)
    send(lab, topic, 300, now_ms, 20)
    assert keeping.stop() == 0
    worker = lab.worker(topic, expire_every_s=0.5)
    send(lab, topic, 320, now_ms, 20)

    def has_counted() -> bool:
        worker.ask_progress()
        lines = worker.events("progress")
        return bool(lines) and (lines[-1]["expired"], lines[-1]["lag"]) == (300, 0)

    await_that(has_counted, "a line that counts what went")
    assert sum(line["rows"] for line in worker.events("expired")) == 300
    assert worker.events("expired")[-1]["start"] == 300
    assert keeping.events("expired") + worker.events("expiry failed") == []
    (left,) = lab.stored(topic).values()
    assert [row[0] for row in left] == list(range(300, 340))
    assert left == topic.holds()[0][300:]
