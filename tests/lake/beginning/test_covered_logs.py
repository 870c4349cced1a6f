"""Logs that returns of a partition archive go once the table has all of their rows, no sooner."""

import shutil
from pathlib import Path

import pytest

from storage_core import Stream, StreamReader
from storage_core.lake import repair_lake
from storage_core.lake.beginning import begin
from storage_core.testing import SimulatedCrash
from tests.lake.beginning.beginning_lab import BORN, NAME, SHARD
from tests.log.workbench import batch_of, column_of

ROW_COLUMNS = ("address", "secondary", "primary", "version", "payload")


def give(stream: Stream, log: StreamReader, start: int, end: int) -> None:
    """Let a stream have the records of some addresses that another log has."""
    for batch in log.tail(SHARD, start, end, columns=list(ROW_COLUMNS)):
        addresses = batch.column("address").to_pylist()
        stream.append_batch(batch.drop_columns(["address"]), shard=SHARD, addresses=addresses)
    dead_letters = dict(log.shard(SHARD).dead_letters(start, end))
    stream.append_batch(batch_of([]), shard=SHARD, addresses=[], dead_letters=dead_letters)
    stream.commit()


def test_log_goes_with_the_first_publish_where_the_table_has_its_rows(lab):
    lab.published(100)
    for _ in range(3):
        first = lab.owner
        lab.take_over(lab.new_root())
        lab.published(50)
        assert lab.take_over(first).archived
        assert len(lab.archived()) == 1
        lab.fill(20)
        assert lab.publish().logs_removed == 1
        assert lab.archived() == []
        lab.check()
    assert lab.problems() == []


def test_log_with_rows_that_nobody_published_stays_until_somebody_has(lab):
    lab.published(100)
    lab.append(50)
    first, end = lab.owner, lab.owner.stream.committed()[SHARD]
    begun = lab.take_over(lab.new_root())
    assert begun.end < end
    lab.publish()
    lab.take_over(first)
    (archived,) = lab.archived()
    with StreamReader.open(first.root, NAME, archived=archived.lineage) as reader:
        for some in (begun.end + 20, end):
            assert lab.archived() == [archived]
            give(first.stream, reader, first.stream.committed()[SHARD], some)
            first.stream.seal()
            lab.publish()
    assert lab.archived() == []


def test_log_that_alone_has_some_rows_stays_for_good(lab):
    lab.published(100)
    lab.append(30)
    first = lab.owner
    lab.take_over(lab.new_root())
    # The heir never gets what the first one had not published.
    lab.published(50)
    lab.take_over(first)
    lab.fill(20)
    done = lab.publish()
    assert (done.logs_removed, done.logs_kept) == (0, 1)
    lab.fill(20)
    done = lab.publish()
    assert (done.logs_removed, done.logs_kept) == (0, 0)
    assert len(lab.archived()) == 1


def test_rows_are_published_though_an_archived_log_may_not_be_touched(lab):
    lab.published(100)
    lab.append(30)
    first = lab.owner
    lab.take_over()
    lab.published(50)
    lab.take_over(first)
    (mark,) = first.root.glob(f"{NAME}/~archived/*/copy")
    mark.unlink()
    mark.mkdir()
    lab.fill(20)
    assert lab.publish().rows == 20
    assert len(lab.archived()) == 1


def test_log_stays_while_the_store_lacks_a_file_of_which_it_has_the_only_copy(lab):
    lab.published(100)
    first = lab.owner
    lab.take_over()
    lab.published(50)
    lab.take_over(first)
    with first.reader() as reader:
        # The addresses of all rows are in the cache from now on.
        assert column_of(reader.tail(SHARD, columns=["address"]), "address")
    here = {part.entry.digest.hex() for part in first.stream.parts() if part.path.exists()}
    gone = next(file for file in lab.files() if file.stem.split("-")[-1] not in here)
    gone.unlink()
    for _ in range(2):
        lab.fill(20)
        assert lab.publish().logs_removed == 0
    done = repair_lake(first.root, NAME)
    assert done.is_clean
    assert [file.kind for file in done.repaired] == ["from copy", "uploaded"]
    lab.fill(20)
    lab.publish()
    assert lab.archived() == []


def test_rows_that_expired_since_keep_no_log(lab):
    lab.published(150)
    first = lab.owner
    lab.take_over(lab.new_root())
    lab.published(150)
    lab.take_over(first)
    lab.expire(100)
    lab.fill(20)
    assert lab.publish().logs_removed == 1


def test_log_that_a_reset_archived_stays(lab):
    lab.published(100)
    first = lab.owner
    first.stream.close()
    Stream.archive_shards(first.root, NAME, {SHARD: BORN})
    lab.take_over(first)
    assert len(lab.archived()) == 2
    lab.fill(20)
    assert lab.publish().logs_removed == 1
    (reset,) = lab.archived()
    assert reset.born == BORN < reset.end


def test_log_of_retried_dead_letters_stays(lab, monkeypatch):
    monkeypatch.setattr(begin, "RETRY_SHARDS_FROM", SHARD)
    lab.published(100)
    first = lab.owner
    lab.take_over()
    lab.published(50)
    lab.take_over(first)
    lab.fill(20)
    assert lab.publish().logs_removed == 0
    assert len(lab.archived()) == 1


def test_removal_that_a_crash_ended_is_finished_by_the_next_publish(lab, monkeypatch):
    lab.published(100)
    first = lab.owner
    lab.take_over()
    lab.published(50)
    lab.take_over(first)
    removed = shutil.rmtree

    def dying(path, *rest, **named):
        removed(path, *rest, **named)
        if Path(path).parent.parent.name == "~archived":
            raise SimulatedCrash

    lab.fill(20)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", dying)
        with pytest.raises(SimulatedCrash):
            lab.publish()
    assert len(lab.archived()) == 1
    lab.fill(20)
    assert lab.publish().logs_removed == 1
    assert lab.archived() == []


def publish_raw(lab):
    """Let the owner publish a dead letter, and rows of raw bytes."""
    lab.append_dead_letter()
    lab.append_columns({"secondary": [1] * 20})
    lab.owner.stream.seal()
    return lab.publish()


@pytest.mark.parametrize("loss", ["gone", "damaged"])
def test_log_that_alone_has_some_dead_letters_stays_for_good(lab, loss):
    publish_raw(lab)
    first = lab.owner
    lab.take_over()
    publish_raw(lab)
    runs = list((lab.target.directory / "_shardlog" / f"shard={SHARD}").iterdir())
    for run in runs:
        run.unlink() if loss == "gone" else run.write_bytes(run.read_bytes()[:-9])
    begun = lab.take_over(first)
    assert len(begun.damaged_runs) == (len(runs) if loss == "damaged" else 0)
    assert [gap.end for gap in begun.without_run] == [begun.end]
    done = publish_raw(lab)
    assert (done.logs_removed, done.logs_kept) == (0, 1)
    assert len(lab.archived()) == 1


def test_log_goes_where_the_log_in_force_has_its_dead_letters(lab):
    publish_raw(lab)
    first = lab.owner
    lab.take_over()
    publish_raw(lab)
    assert lab.take_over(first).without_run == ()
    assert publish_raw(lab).logs_removed == 1


def test_log_with_a_dead_letter_that_others_passed_over_stays(lab):
    lab.published(50)
    lab.append_dead_letter()
    first, end = lab.owner, lab.owner.stream.committed()[SHARD]
    lab.take_over()
    # Kafka had lost it.
    lab.owner.stream.skip(SHARD, end, source={"next": end})
    lab.published(50)
    lab.take_over(first)
    lab.fill(20)
    assert lab.publish().logs_kept == 1
    assert len(lab.archived()) == 1


def test_files_of_parts_that_a_log_has_are_kept_when_it_goes(lab):
    lab.published(100)
    first = lab.owner
    here = {part.entry.digest for part in first.stream.parts()}
    lab.take_over()
    lab.published(50)
    lab.take_over(first)
    assert here - {part.entry.digest for part in first.stream.parts() if part.path.exists()}
    lab.fill(20)
    assert lab.publish().logs_removed == 1
    parts = [part for part in first.stream.parts() if part.entry.digest in here]
    assert {part.entry.digest for part in parts} == here
    assert all(part.path.exists() for part in parts)
    assert lab.problems() == []
    for part in parts:
        next(file for file in lab.files() if file.stem.endswith(part.entry.digest.hex())).unlink()
    lab.check()
