"""Batches that come again once their rows lie in parts alone: row for row what they were.

A query plans and sees batches of rows that are in blocks, or of which some are sealed. Then all
rows are sealed, their parts joined and their blocks trimmed, and the batch comes again: after it
failed, after its commit was forgotten, after the checkpoint was put back to an earlier one. Drivers
that are killed in between are in test_killed_drivers.py.
"""

import shutil
from typing import Any

import pytest

from tests.spark.source.test_typed_values import READER, VERSIONS, fields_of, of_version, run
from tests.spark.support.lab import SparkLab
from tests.unit.streaming_jobs.source.source_lab import SourceLab
from tests.unit.streaming_jobs.source.typed_lab import TypedLab, entry_of

STEPS = 6
ROWS = 20
OFFSETS_A_BATCH: dict[str, Any] = {"maxOffsetsPerTrigger": 30, "startingOffsets": "earliest"}


def gone_cold(log: SourceLab) -> None:
    """Let rows be in parts alone, in few of them."""
    log.writer.seal()
    assert log.writer.compact().steps
    assert log.writer.trim().rows


def append_and_seal(log: SourceLab) -> None:
    """Append rows in so many steps, each of which is sealed, that their parts are joined."""
    for step in range(STEPS):
        log.append(ROWS, first=step * ROWS)
        log.writer.seal()


def test_batches_come_again_row_for_row_once_their_rows_are_trimmed(lab: SparkLab) -> None:
    lab.log.create(shards=2, block_records=8)
    append_and_seal(lab.log)
    lab.run(**OFFSETS_A_BATCH)
    before = lab.seen
    assert sorted(before) == [0, 1, 2, 3]
    gone_cold(lab.log)
    lab.forget_commit(3)
    lab.batches.clear()
    lab.run(**OFFSETS_A_BATCH)
    assert lab.seen == {3: before[3]}
    lab.log.append(ROWS, first=STEPS * ROWS)
    lab.run(**OFFSETS_A_BATCH)
    assert lab.seen == {3: before[3], 4: list(range(STEPS * ROWS, (STEPS + 1) * ROWS))}


def test_failed_batch_comes_again_row_for_row_once_its_rows_are_trimmed(lab: SparkLab) -> None:
    lab.log.create(shards=2, block_records=8)
    append_and_seal(lab.log)
    lab.fails(failing=1, **OFFSETS_A_BATCH)
    before = lab.seen
    assert sorted(before) == [0, 1]
    gone_cold(lab.log)
    lab.run(**OFFSETS_A_BATCH)
    assert {number: lab.seen[number] for number in before} == before
    assert lab.all_seen == list(range(STEPS * ROWS))


def test_checkpoint_put_back_goes_on_over_rows_that_were_trimmed_since(lab: SparkLab) -> None:
    lab.log.create(shards=2, block_records=8)
    append_and_seal(lab.log)
    lab.fails(failing=1, **OFFSETS_A_BATCH)
    earlier = lab.checkpoint.with_name("earlier")
    shutil.copytree(lab.checkpoint, earlier)
    lab.run(**OFFSETS_A_BATCH)
    before = lab.seen
    gone_cold(lab.log)
    shutil.rmtree(lab.checkpoint)
    earlier.rename(lab.checkpoint)
    lab.batches.clear()
    lab.run(**OFFSETS_A_BATCH)
    # The first was committed before the copy was made.
    assert lab.seen == {number: before[number] for number in (1, 2, 3)}


@pytest.fixture
def typed(lab: SparkLab) -> SparkLab:
    lab.log = TypedLab(lab.log.root)
    lab.log.create(shards=1, block_records=3)
    return lab


def test_typed_batch_comes_again_row_for_row_once_its_rows_are_trimmed(typed: SparkLab) -> None:
    log = typed.log
    assert isinstance(log, TypedLab)
    torn, sent = of_version(0, 2)[:-1], 0
    for step in range(STEPS):
        version = step % 2
        rows = [(0, of_version(version, number)) for number in range(5)]
        more = [] if version else [(0, torn), (None, b"raw")]
        log.put_values([*rows, *more], [entry_of(version + 1, VERSIONS[version])])
        log.writer.seal()
        sent += len(rows) + len(more)
    options = {"readerSchema": READER, "mode": "PERMISSIVE", "maxOffsetsPerTrigger": 12}
    before = run(typed, **options)
    names = ("device", "unit", "_corrupt_value")
    assert fields_of(before[0], *names)[5:7] == [(None, None, torn), (None, None, b"raw")]
    assert sum(len(rows) for rows in before.values()) == sent
    gone_cold(log)
    last = max(before)
    typed.forget_commit(last)
    assert run(typed, **options) == {last: before[last]}
    shutil.rmtree(typed.checkpoint)
    assert run(typed, **options) == before
