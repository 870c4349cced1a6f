"""What is published of a stream: each visible row once, whatever became of its parts meanwhile."""

import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from storage_core import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    StreamReader,
    TieringReport,
    UnavailableError,
)
from storage_core.lake.publish import publish_shard, publish_stream
from storage_core.lake.publishing.publication import Publication
from storage_core.lake.status import lake_status
from storage_core.lake.table import LakeConflictError, LakeTable
from storage_core.platform.clock import SystemClock
from storage_core.sql import connect
from storage_core.testing import ManualClock, SimulatedCrash
from tests.lake.publish.publish_lab import (
    PublishLab,
    dying,
)
from tests.log.parts.parts_lab import NAME, schema_of
from tests.thin import thinned

PUBLISH = """
import sys
from storage_core.lake.publish import publish_stream
from storage_core.lake.target import lake_target
sys.stdin.readline()
publish_stream(sys.argv[1], sys.argv[2], lake_target(sys.argv[3]))
"""


@pytest.fixture
def lab(root):
    lab = PublishLab(root, keep_replaced=timedelta(0))
    yield lab
    lab.stream.close()


def by_address(rows: pa.Table) -> list[list[str]]:
    """Return rows by shard and address, such that NaN is itself."""
    dicts: list[dict[str, Any]] = rows.to_pylist()
    dicts.sort(key=lambda row: (row["shard"], row["address"]))
    return [[repr(row[name]) for name in sorted(row)] for row in dicts]


def noise(count: int) -> list[dict[str, float]]:
    """Return values that nothing packs."""
    return [{"noise": value} for value in np.random.default_rng(5).random(count)]


@pytest.fixture
def stored_lab(root, store):
    """A lab whose table is in a directory, or in a bucket."""
    lab = PublishLab(root, store, keep_replaced=timedelta(0))
    yield lab
    lab.stream.close()


def test_each_sealed_row_is_in_the_table_once(lab):
    lab.fill(200)
    lab.append(lab.rng, 50)
    report = lab.publish()
    lab.check()
    assert report.rows == len(lab.places())
    assert {shard: done.end for shard, done in report.shards.items()} == lab.published()
    assert all(done.end == done.sealed and done.is_whole for done in report.shards.values())


def test_table_has_the_values_that_sql_has(lab):
    for _ in range(6):
        lab.fill(60)
    lab.publish()
    lab.fill(60)
    lab.stream.compact()
    lab.publish()
    names = [name for name in lab.opened().schema().to_arrow().names if name != "tags"]
    columns = ", ".join(f'"{name}"' for name in names)
    with closing(connect(lab.root)) as streams:
        in_sql = streams.sql(f'SELECT {columns} FROM "{NAME}"').arrow().read_all()
    in_table = lab.opened().to_pyarrow_table(columns=names)
    assert by_address(in_table) == by_address(in_sql)


def test_stream_without_sealed_rows_makes_no_table(lab):
    lab.append(lab.rng, 50)
    assert lab.publish().commits == 0
    assert not DeltaTable.is_deltatable(lab.target.uri)


def test_table_follows_the_stream_through_its_life(stored_lab):
    lab = stored_lab
    for _ in range(3):
        lab.fill(30)
        lab.fill(30).publish()
    lab.check()
    lab.stream.compact()
    lab.begin_hour().fill(30).publish()
    lab.check()
    lab.expire(20)
    lab.publish()
    lab.check()
    assert lab.publish().commits == 0


def test_two_publishers_at_once_double_nothing(stored_lab):
    lab = stored_lab
    for _ in range(3):
        lab.fill(60)
    with ThreadPoolExecutor(2) as threads:
        for publishing in [threads.submit(lab.publish) for _ in range(2)]:
            publishing.result()
    lab.check()
    assert {place[0] for place in lab.places()} == {0, 1}


def test_second_call_has_nothing_to_do(lab):
    lab.fill(100).publish()
    report = lab.publish()
    assert (report.commits, report.rows, report.files_added) == (0, 0, 0)


def test_new_rows_are_added_to_those_that_were_there(lab):
    for _ in range(3):
        lab.fill(60).publish()
        lab.check()


def test_merged_parts_take_the_place_of_those_they_were_made_of(lab):
    for _ in range(6):
        lab.fill(40).publish()
    before = lab.places()
    lab.stream.compact()
    report = lab.publish()
    assert report.files_removed > report.files_added > 0
    assert report.rows == 0
    assert lab.places() == before
    lab.check()


def test_part_merged_across_the_published_address_doubles_no_row(lab):
    lab.fill(40).fill(40).publish()
    for _ in range(5):
        lab.fill(40)
    lab.stream.compact()
    report = lab.publish()
    lab.check()
    assert report.rows + 80 == len(lab.places())


def test_files_of_rows_that_expired_go(lab):
    for _ in range(3):
        lab.begin_hour().fill(60).publish()
    before = lab.places()
    lab.expire(30)
    report = lab.publish()
    assert report.files_removed > 0
    assert report.rows == 0
    assert len(lab.places()) < len(before)
    lab.check()


def test_rows_that_were_trimmed_are_published(lab):
    lab.fill(100)
    lab.stream.trim()
    lab.publish()
    lab.check()


def test_rows_that_expired_before_are_not_published(lab):
    lab.fill(100)
    lab.expire(40)
    lab.fill(60).publish()
    lab.check()
    assert set(lab.places()) == lab.visible()


@thinned("call", range(2, 16), count=4)
@pytest.mark.parametrize("behind", [False, True])
def test_call_that_dies_leaves_what_the_next_one_goes_on_from(lab, call, behind):
    lab.fill(60)

    def publish_often():
        for _ in range(4):
            lab.fill(60).publish()

    with pytest.raises(SimulatedCrash), dying(call, behind=behind):
        publish_often()
    lab.check()
    lab.reopen()
    lab.publish()
    lab.check()


@pytest.mark.parametrize("behind", [False, True])
def test_commit_that_another_precedes_begins_anew(lab, behind):
    lab.fill(60).publish()
    lab.fill(60)
    with dying(1, "commit_all", behind=behind, error=LakeConflictError):
        lab.publish()
    lab.check()


def test_table_to_which_others_commit_all_the_time_is_left_for_later(lab, monkeypatch):
    lab.fill(60)

    def refuse(*_: object, **__: object) -> None:
        message = "somebody else has committed"
        raise LakeConflictError(message)

    monkeypatch.setattr(LakeTable, "commit_all", refuse)
    with pytest.raises(LakeConflictError):
        lab.publish()
    monkeypatch.undo()
    lab.publish()
    lab.check()


def test_store_that_forgets_what_it_took_is_told(lab, monkeypatch):
    lab.fill(60).publish()
    lab.fill(60)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", lambda *_, **__: None)
    with pytest.raises(UnavailableError, match="does not show a commit"):
        lab.publish()


def test_two_processes_at_once_double_nothing(lab):
    for _ in range(6):
        lab.fill(60)
    command = [sys.executable, "-c", PUBLISH, str(lab.root), NAME, lab.target.uri]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    for process in running:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
    assert [process.wait() for process in running] == [0, 0]
    lab.check()


def test_publisher_that_wakes_behind_another_doubles_nothing(lab, monkeypatch):
    lab.fill(60).publish()
    lab.fill(60)
    usual = Publication.commit
    woken: list[bool] = []

    def overtaken(self, *arguments):
        if not woken:
            woken.append(True)
            for _ in range(5):
                lab.fill(40)
            lab.stream.compact()
            lab.publish()
        return usual(self, *arguments)

    monkeypatch.setattr(Publication, "commit", overtaken)
    lab.publish()
    lab.check()


def test_part_that_is_deleted_meanwhile_is_published_as_what_it_became(lab, monkeypatch):
    for _ in range(6):
        lab.fill(40)
    usual = Publication.upload
    merged: list[TieringReport] = []

    def late(self, *arguments):
        if not merged:
            merged.append(lab.stream.compact())
        return usual(self, *arguments)

    monkeypatch.setattr(Publication, "upload", late)
    lab.publish()
    assert merged[0].parts_obsolete
    lab.check()


def test_damaged_part_is_told_and_the_other_shard_is_published(lab):
    lab.fill(60)
    part = next(part for part in lab.stream.parts() if part.shard == 0)
    part.path.write_bytes(part.path.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptionError) as raised:
        lab.publish()
    assert (raised.value.shard, raised.value.path) == (0, part.path)
    assert (raised.value.start, raised.value.end) == (part.entry.first, part.entry.last + 1)
    assert lab.published()[1] > 0
    lab.stream.seal(rebuild=True)
    lab.publish()
    lab.check()


def test_what_lies_before_a_damaged_part_is_published(lab):
    for _ in range(3):
        lab.fill(40)
    parts = [part for part in lab.stream.parts() if part.shard == 0]
    part = max(parts, key=lambda part: part.entry.first)
    part.path.unlink()
    with pytest.raises(CorruptionError, match="missing"):
        lab.publish()
    assert 0 < lab.published()[0] <= part.entry.first
    lab.check()


def test_disk_without_room_for_what_is_rewritten_is_told(lab):
    lab.append_values(schema_of([{"name": "noise", "type": "double"}]), noise(50_000), 50)
    lab.stream.seal()
    # The writer's own threads may write meanwhile.
    lab.stream.close()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, usual[1]))
    try:
        with pytest.raises(UnavailableError, match="cannot be written: File too large"):
            lab.publish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert lab.publish().rows == 50_000
    lab.reopen()
    lab.check()


def test_older_copy_of_a_stream_in_its_place_is_told(lab, root):
    lab.fill(60).publish()
    lab.stream.close()
    older = lab.copied_to(root / "older")
    for _ in range(2):
        lab.reopen()
        lab.fill(60).publish()
    with pytest.raises(ForeignDataError, match="an older copy was put in its place"):
        older.publish()
    older.stream.close()


def test_call_with_a_limit_leaves_the_rest_to_another(lab):
    for _ in range(6):
        lab.fill(60)
    with StreamReader.open(lab.root, NAME) as reader:
        first = publish_shard(reader, 0, lab.target, commits_max=1)
        assert (first.commits, first.is_whole) == (1, False)
        assert first.end < first.sealed
        others = publish_shard(reader, 0, lab.target)
    assert (others.begin, others.end) == (first.end, first.sealed)
    assert others.is_whole
    lab.publish()
    lab.check()


def test_rows_are_counted_as_they_are_uploaded(lab):
    counted: list[int] = []
    lab.fill(100)
    report = publish_stream(lab.root, NAME, lab.target, on_rows=counted.append)
    assert counted == sorted(counted)
    assert counted[-1] == report.rows


def test_status_tells_what_waits_and_for_how_long(lab):
    lab.fill(60)
    status = lake_status(lab.root, NAME, lab.target)
    assert (status.version, status.files, status.unpublished) == (None, 0, 60)
    lab.publish()
    status = lake_status(lab.root, NAME, lab.target)
    assert (status.unpublished, status.unpublished_age_ms) == (0, 0)
    assert status.files == len(lab.opened().file_uris())
    lab.append(lab.rng, 30)
    hour_later = ManualClock(SystemClock().now_ns() + 3600 * 10**9)
    status = lake_status(lab.root, NAME, lab.target, clock=hour_later)
    assert status.unpublished == 30
    assert 3_600_000 <= status.unpublished_age_ms < 2 * 3_600_000
    assert {shard: one.published for shard, one in status.shards.items()} == lab.published()


def test_stream_without_a_lake_is_refused(lab):
    with pytest.raises(InvalidRequestError, match="has no lake"):
        publish_stream(lab.root, NAME)
