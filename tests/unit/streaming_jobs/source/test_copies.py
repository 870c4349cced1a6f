"""A task on a machine whose disk has a copy of the root refuses it, however old or new it is.

The copy takes the root's place between the driver's plan and the task, as it has on a machine of
its own or in a mount namespace.
"""

import os
import shutil
from dataclasses import replace

import pytest

from storage_core import ForeignDataError, UnavailableError
from streaming_jobs.source.driver.ranges import RangeReader
from streaming_jobs.source.executor.open_readers import OpenReaders
from streaming_jobs.source.executor.task import TaskRules, added_ranges, read_range
from streaming_jobs.source.options import parse_source_options
from streaming_jobs.source.requests import RowRules
from tests.snapshots import snapshot
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, NAME, SourceLab

RULES = TaskRules(RowRules(("offset",)), fails_on_loss=True, end_wait_s=0.05)
STARTS = {
    "earliest": {},
    "a time": {"startingTimestamp": str(FIRST_MS)},
    "until a time": {"endingTimestamp": str(FIRST_MS + 10**6)},
    "given offsets": {
        "startingOffsets": {NAME: {"0": 0}},
        "endingOffsets": {NAME: {"0": 20}},
    },
}


@pytest.fixture
def lab(lab):
    lab.create(shards=1, block_records=4)
    lab.append(20)
    return lab


def planned(lab: SourceLab, **options):
    tasks = RangeReader(parse_source_options(lab.options(**options), "batch")).partitions()
    return tasks, [one for task in tasks for one in task.ranges]  # type: ignore[attr-defined]  # ours


def count(ranges, readers: OpenReaders) -> int:
    return sum(len(batch) for one in ranges for batch in read_range(one, RULES, readers))


def copy_of(lab: SourceLab, *, links: bool = False):
    """Copy the root as it stands."""
    copy = lab.root.with_name("copy")
    return snapshot(lab.root, copy, copy=os.link if links else shutil.copy2)


def swap(lab: SourceLab, copy) -> None:
    """Let root and copy take each other's place."""
    aside = lab.root.with_name("aside")
    lab.root.rename(aside)
    copy.rename(lab.root)
    aside.rename(copy)


@pytest.mark.parametrize("options", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("links", [False, True], ids=["copied", "hard links"])
def test_frame_that_was_used_before_a_copy_grew_old_is_refused_there(lab, options, links):
    readers = OpenReaders()
    copy = copy_of(lab, links=links)
    _, ranges = planned(lab, **options)
    assert count(ranges, readers) == 20
    lab.append(10, first=20)
    swap(lab, copy)
    with pytest.raises(ForeignDataError, match=r"host .* has a copy of stream 'events' at"):
        count(ranges, readers)
    swap(lab, copy)
    assert count(ranges, readers) == (20 if "endingOffsets" in options else 30)


def test_copy_that_went_on_by_itself_is_refused(lab):
    copy = copy_of(lab)
    lab.append(5, first=20)
    _, ranges = planned(lab)
    lab.close()
    swap(lab, copy)
    lab.open()
    lab.append(10, first=90)
    with pytest.raises(ForeignDataError, match="has a copy"):
        count(ranges, OpenReaders())


def test_stream_that_joins_in_a_copy_alone_is_refused(lab):
    copy = copy_of(lab)
    tasks, _ = planned(lab, subscribePattern="other.*")
    (added,) = (task.added for task in tasks)
    assert added_ranges(added) == []
    swap(lab, copy)
    with pytest.raises(ForeignDataError, match="has a copy of the root"):
        added_ranges(added)


@pytest.mark.parametrize("options", [STARTS["earliest"], STARTS["a time"]])
def test_log_that_is_behind_what_the_driver_saw_is_told_with_both_ends(lab, options):
    _, (task,) = planned(lab, **options)
    behind = replace(task, least=task.least + 1)
    with pytest.raises(UnavailableError, match=r"did not reach offset 21.* it ends at 20") as error:
        count([behind], OpenReaders())
    assert (error.value.stream, error.value.shard) == (NAME, 0)
    elsewhere = replace(task.place.directory, machine="another", is_local=False)
    far = replace(behind, place=replace(task.place, directory=elsewhere))
    with pytest.raises(UnavailableError, match=r"it ends at 20 after 0\.05 s"):
        count([far], OpenReaders())
