"""Goal: a dead letter that is well by now becomes a row once, and the topic gets no second record.

Method: a worker keeps records whose registry does not answer; it answers again;
retries are run, and killed in place of each of their steps. Reads, SQL and a running reader count
rows, and the topic's end says that no record came.
"""

import json
from collections import Counter
from typing import Any

import kafka
import pytest

from connectors.cli.exit_codes import EXIT_UNAVAILABLE, EXIT_USAGE
from connectors.group.retry_shards import retry_shard_of
from storage_core import Stream, StreamReader
from storage_core.sql import connect
from tests.broker.support.avro_lab import (
    READING,
    RegistryDoor,
    avro_settings,
    reading,
    register,
)
from tests.broker.support.dlq_process import STEPS, dlq, retry_that_dies
from tests.broker.support.lab import Lab, Topic, WorkerProcess
from tests.waiting import await_that

RETRY = retry_shard_of(0)
LETTERS = 200
# Two batches of a retry.
MANY = 700


def produce(topic: Topic, values: list[bytes]) -> None:
    """Make records by another client."""
    producer = kafka.KafkaProducer(bootstrap_servers=topic.bootstrap)
    for value in values:
        producer.send(topic.name, value, partition=0)
    producer.flush()
    producer.close()


def count_in_kafka(topic: Topic) -> int:
    """Count a topic's records by another client."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=topic.bootstrap)
    try:
        ends = consumer.end_offsets([kafka.TopicPartition(topic.name, 0)])
        return sum(ends.values())
    finally:
        consumer.close()


def waiting(lab: Lab, topic: Topic) -> int:
    with StreamReader.open(lab.root, topic.name) as reader:
        reader.refresh()
        return reader.stats(0).dead_letters_waiting


def with_dead_letters(lab: Lab, registry: str, topic: Topic, *values: bytes) -> WorkerProcess:
    """Produce values whose schema nobody tells; return the worker that keeps them."""
    produce(topic, list(values))
    door = RegistryDoor(registry)
    door.shut()
    silent = {"schema__unreachable": "dead-letter", "schema__wait_s": 0}
    worker = lab.worker(topic, **avro_settings(door.url, **silent))
    await_that(
        lambda: bool(lab.committed(topic)) and waiting(lab, topic) == len(values), "dead letters"
    )
    return worker


def readings(registry: str, topic: Topic, count: int, start: int = 0) -> list[bytes]:
    schema_id = register(registry, f"{topic.name}-value", READING)
    return [reading(schema_id, number) for number in range(start, start + count)]


def row_counts(lab: Lab, topic: Topic) -> Counter[Any]:
    """Return how often each time is in the stream, as reads see it."""
    with StreamReader.open(lab.root, topic.name) as reader:
        reader.refresh()
        return Counter(reader.read().column("primary").to_pylist())


def sql_count(lab: Lab, topic: Topic) -> int:
    with connect(lab.root) as streams:
        ((count,),) = streams.sql(f'SELECT count(DISTINCT "at") FROM "{topic.name}"').fetchall()
        return int(count)


def expect_each_once(lab: Lab, topic: Topic, count: int) -> None:
    """Expect each record as one row, by reads, by address and by SQL."""
    rows = row_counts(lab, topic)
    assert (len(rows), set(rows.values())) == (count, {1})
    with StreamReader.open(lab.root, topic.name) as reader:
        reader.refresh()
        tailed = [
            row for batch in reader.tail(RETRY) for row in batch.column("address").to_pylist()
        ]
        assert tailed == list(range(count))
        stats = reader.stats(0)
        assert sql_count(lab, topic) == count
        outcomes = stats.dead_letters_retried, stats.dead_letters_forwarded
        assert (stats.dead_letters_waiting, *outcomes) == (0, count, 0)


@pytest.fixture
def topic(lab: Lab) -> Topic:
    return lab.topic(partitions=1)


def test_dead_letters_of_a_mended_schema_become_rows_and_the_topic_gets_no_record(
    lab: Lab, registry: str, topic: Topic
) -> None:
    worker = with_dead_letters(lab, registry, topic, *readings(registry, topic, LETTERS))
    options = "--registry", registry
    code, out, _ = dlq("retry", lab.root, topic.name, *options, "--dry-run")
    assert f"partition 0: {LETTERS} dead letters would be stored" in out
    code, _, err = dlq("retry", lab.root, topic.name, *options)
    assert code == EXIT_UNAVAILABLE, err
    assert f"shardlog group pause {lab.root} {topic.name} --partition 0" in err
    assert len(err.splitlines()) == 1
    assert worker.stop() == 0
    code, out, err = dlq("retry", lab.root, topic.name, *options)
    assert (code, err) == (0, "")
    assert out.startswith(f"partition 0: {LETTERS} dead letters stored in shard {RETRY}")
    expect_each_once(lab, topic, LETTERS)
    assert count_in_kafka(topic) == LETTERS
    code, out, _ = dlq("retry", lab.root, topic.name, *options)
    assert (code, out) == (0, "no dead letters are chosen\n")


def test_worker_goes_on_beside_retried_rows_and_its_maintenance_seals_them(
    lab: Lab, registry: str, topic: Topic
) -> None:
    with_dead_letters(lab, registry, topic, *readings(registry, topic, LETTERS)).stop()
    dlq("retry", lab.root, topic.name, "--registry", registry)
    produce(topic, readings(registry, topic, 50, LETTERS))
    with Stream.open(lab.root, topic.name) as stream:
        stream.alter(seal_rows=1)
    worker = lab.worker(topic, **avro_settings(registry), maintain_every_s=0.2)
    await_that(lambda: len(row_counts(lab, topic)) == LETTERS + 50, "all rows")

    def sealed() -> bool:
        with StreamReader.open(lab.root, topic.name) as reader:
            reader.refresh()
            return reader.unsealed()[RETRY] == 0

    await_that(sealed, "retried rows in parts")
    assert worker.stop() == 0
    assert set(row_counts(lab, topic).values()) == {1}


def test_silent_registry_ends_a_retry_and_nothing_is_changed(
    lab: Lab, registry: str, topic: Topic
) -> None:
    with_dead_letters(lab, registry, topic, *readings(registry, topic, 5)).stop()
    door = RegistryDoor(registry)
    door.shut()
    code, _, err = dlq("retry", lab.root, topic.name, "--registry", door.url)
    assert (code, len(err.splitlines())) == (EXIT_UNAVAILABLE, 1), err
    assert waiting(lab, topic) == 5
    code, _, err = dlq("retry", lab.root, topic.name)
    assert code == EXIT_USAGE
    assert "--config" in err


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("step", STEPS[:3])
def test_retry_killed_at_any_step_stores_each_dead_letter_once(
    lab: Lab, registry: str, topic: Topic, step: str, nth: int
) -> None:
    with_dead_letters(lab, registry, topic, *readings(registry, topic, MANY)).stop()
    retry_that_dies(step, lab.root, topic.name, "--registry", registry, nth=nth)
    code, _, err = dlq("retry", lab.root, topic.name, "--registry", registry)
    assert (code, err) == (0, "")
    expect_each_once(lab, topic, MANY)
    assert count_in_kafka(topic) == MANY


def test_worker_that_opens_the_shard_finishes_a_retry_before_it_forwards(
    lab: Lab, registry: str, topic: Topic
) -> None:
    with_dead_letters(lab, registry, topic, *readings(registry, topic, LETTERS)).stop()
    retry_that_dies("clear_dead_letters", lab.root, topic.name, "--registry", registry)
    assert waiting(lab, topic) == LETTERS
    forward = {"dead_letters__policy": "forward", "dead_letters__topic": "{topic}.dlq"}
    worker = lab.worker(topic, **avro_settings(registry, **forward))
    await_that(lambda: waiting(lab, topic) == 0, worker.said)
    assert worker.stop() == 0
    expect_each_once(lab, topic, LETTERS)
    assert f"{topic.name}.dlq" not in lab.admin.partitions()


def test_discard_finishes_a_retry_and_counts_as_discarded_what_was_no_row(
    lab: Lab, registry: str, topic: Topic
) -> None:
    with_dead_letters(lab, registry, topic, *readings(registry, topic, LETTERS)).stop()
    retry_that_dies("clear_dead_letters", lab.root, topic.name, "--registry", registry)
    code, _, err = dlq("discard", lab.root, topic.name, "--all", "--execute")
    assert (code, err) == (0, "")
    expect_each_once(lab, topic, LETTERS)
    with StreamReader.open(lab.root, topic.name) as reader:
        reader.refresh()
        assert reader.stats(0).dead_letters_discarded == 0


def test_row_is_late_where_the_partitions_own_shard_says_so_and_newest_wins_in_latest(
    lab: Lab, registry: str, topic: Topic
) -> None:
    # Ids 0 and 1 go on to later times; id 0 has its newest in a dead letter.
    values = readings(registry, topic, 701)
    with_dead_letters(lab, registry, topic, values[0], values[1], values[700]).stop()
    produce(topic, [values[70], values[71]])
    worker = lab.worker(topic, **avro_settings(registry))
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    code, out, err = dlq("retry", lab.root, topic.name, "--registry", registry)
    assert (code, err) == (0, "")
    assert "3 dead letters stored" in out
    assert "2 of them late" in out
    with StreamReader.open(lab.root, topic.name) as reader:
        reader.refresh()
        newest = reader.latest([0, 1])
        assert (newest[0].shard, newest[1].shard) == (RETRY, 0)
        assert sum(record.num_rows for record in reader.tail(RETRY)) == 3


def test_what_is_still_refused_stays_and_a_filter_leaves_the_others(
    lab: Lab, registry: str, topic: Topic
) -> None:
    values = readings(registry, topic, 20)
    with_dead_letters(lab, registry, topic, *values, *(b"no frame" for _ in range(5))).stop()
    schema_id = int.from_bytes(values[0][1:5], "big")
    options = lab.root, topic.name, "--registry", registry
    code, out, _ = dlq("retry", *options, "--offsets", "0..9", "--schema-id", schema_id)
    assert (code, out.splitlines()[0]) == (
        0, f"partition 0: 10 dead letters stored in shard {RETRY}, 0 still refused",
    )  # fmt: skip
    code, out, _ = dlq("retry", *options)
    assert "10 dead letters stored" in out
    assert "5 still refused" in out
    assert "5 x framing: value begins with 0x6e" in out
    code, out, err = dlq("export", *options[:2], "--to", lab.root.parent / "dead letters.jsonl")
    assert (code, err) == (0, "")
    lines = (lab.root.parent / "dead letters.jsonl").read_text().splitlines()
    assert [json.loads(line)["word"] for line in lines] == ["framing"] * 5
    assert dlq("discard", *options[:2], "--execute")[0] == EXIT_USAGE
    code, out, _ = dlq("discard", *options[:2], "--reason", "framing")
    assert ("5 framing" in out, waiting(lab, topic)) == (True, 5)
    code, out, _ = dlq("discard", *options[:2], "--reason", "framing", "--execute")
    assert (out, waiting(lab, topic)) == ("partition 0: 5 dead letters discarded\n", 0)


def test_larger_payloads_with_keys_of_a_dictionary_and_headers_come_back_as_they_were(
    lab: Lab, topic: Topic
) -> None:
    with lab.producer() as producer:
        for number in range(30):
            headers = [("trace", b"%d" % number), ("none", None)]
            producer.send(topic.name, b"key-%d" % (number % 3), b"x" * 100, None, headers, 0)
    settings: dict[str, Any] = {
        "stream__key_mode": "dictionary",
        "stream__payload_bytes_max": 50,
    }
    worker = lab.worker(topic, **settings)
    await_that(lambda: bool(lab.committed(topic)) and waiting(lab, topic) == 30, "dead letters")
    worker.stop()
    with Stream.open(lab.root, topic.name) as stream:
        stream.alter(payload_bytes_max=1000)
    code, _, err = dlq("retry", lab.root, topic.name)
    assert (code, err) == (0, "")
    with StreamReader.open(lab.root, topic.name) as reader:
        reader.refresh()
        assert reader.read(keys=[b"key-1"]).num_rows == 10
        columns = ["key", "payload", "headers"]
        rows = [row for batch in reader.tail(RETRY, columns=columns) for row in batch.to_pylist()]
    assert [row["key"] for row in rows] == [b"key-%d" % (number % 3) for number in range(30)]
    assert rows[7]["headers"][0] == {"key": "trace", "value": b"7"}


def test_retry_beside_a_running_reader_and_sql_shows_each_row_once(
    lab: Lab, registry: str, topic: Topic
) -> None:
    with_dead_letters(lab, registry, topic, *readings(registry, topic, LETTERS)).stop()
    with StreamReader.open(lab.root, topic.name) as reader:
        assert set(reader.refresh()) == {0}
        dlq("retry", lab.root, topic.name, "--registry", registry)
        assert reader.refresh() == {0: LETTERS, RETRY: LETTERS}
        assert sum(batch.num_rows for batch in reader.tail(RETRY)) == LETTERS
    expect_each_once(lab, topic, LETTERS)
