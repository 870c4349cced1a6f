"""Goal: a file of a part goes from this machine only once the lake has it, and is old enough.

Method: parts are copied into a lake that is a directory; what the table is said to have differs.
"""

from datetime import timedelta
from pathlib import Path

import pytest

from storage_core import CorruptionError, StreamOptions, StreamReader
from storage_core.format.keys import INT64_MAX
from storage_core.lake.absent.byte_cache import ByteCache
from storage_core.lake.absent.lake_parts import LakeParts
from storage_core.lake.absent.local_files import let_files_go
from storage_core.lake.maintenance.unread import UnreadFileError
from storage_core.lake.target import lake_target
from storage_core.testing import ManualClock
from tests.lake.absent.away import copy_to, lake_path
from tests.log.parts.parts_lab import NAME, PartsLab

HOUR = timedelta(hours=1)


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def lab(tmp_path, lake):
    lab = PartsLab(tmp_path / "root", lake=str(lake), keep_local=HOUR)
    lab.append_orders(100)
    lab.stream.seal()
    return lab


def let_go(lab, lake, files, later=2 * HOUR, bytes_max=INT64_MAX, unread=()):  # noqa: PLR0913 - what may go
    """Let files of the first shards go that have any, so long after their parts were made.

    Those of some parts the store does not give.
    """
    made_ms = max(part.entry.sealed_at_ms for part in lab.stream.parts())
    clock = ManualClock(made_ms * 10**6 + int(later.total_seconds()) * 10**9)
    parts = LakeParts(lake_target(str(lake)), ByteCache(lake / "~cache", 2**20, clock))
    reasons: list[UnreadFileError] = []

    def prove(part):
        if part in unread:
            raise UnreadFileError(part.path.name)
        parts.prove(part)

    with StreamReader.open(lab.root, NAME) as reader:
        gone = 0
        for shard in reader.committed():
            done = let_files_go(
                reader, shard, files, prove, reasons.append, clock, bytes_max=bytes_max
            )
            gone += done.parts
            if not done.is_whole:
                break
        assert [str(error) for error in reasons] == [part.path.name for part in unread]
        return gone


def here(lab):
    return [part for part in lab.stream.parts() if part.path.exists()]


def test_files_go_that_the_table_has_as_they_lie(lab, lake):
    rows, parts = lab.rows(), lab.stream.parts()
    files = copy_to(lake, parts)
    assert let_go(lab, lake, files) == len(parts)
    assert not here(lab)
    assert not list(lab.root.glob(f"{NAME}/*/parts/*.parquet"))
    assert let_go(lab, lake, files) == 0
    lab.stream.trim()
    assert lab.rows() == rows


def test_name_that_other_programs_see_goes_before_the_file(lab, lake, monkeypatch):
    files = copy_to(lake, lab.stream.parts())
    gone, usual = [], Path.unlink

    def noted(path, *, missing_ok=False):
        gone.append(path.parent.name)
        usual(path, missing_ok=missing_ok)

    with monkeypatch.context() as noting:
        noting.setattr(Path, "unlink", noted)
        let_go(lab, lake, files)
    of_parts = [name for name in gone if name in ("parts", "sealed")]
    assert of_parts == ["parts", "sealed"] * len(files)


def test_files_stay_that_are_young_or_that_the_table_lacks(lab, lake):
    parts = lab.stream.parts()
    files = copy_to(lake, parts)
    assert let_go(lab, lake, files, later=HOUR / 2) == 0
    assert let_go(lab, lake, {}) == 0
    assert let_go(lab, lake, {path: size + 1 for path, size in files.items()}) == 0
    lab.stream.alter(keep_local=None)
    assert let_go(lab, lake, files) == 0
    assert here(lab) == parts


@pytest.mark.parametrize("is_there", [True, False])
def test_file_stays_of_which_the_store_has_another(lab, lake, is_there):
    part, *_ = lab.stream.parts()
    files = copy_to(lake, [part])
    file = lake_path(lake, part)
    file.write_bytes(bytes(part.entry.size)) if is_there else file.unlink()
    with pytest.raises(CorruptionError, match="the lake's file of a part"):
        let_go(lab, lake, files)
    assert part in here(lab)


def test_file_stays_of_which_the_store_has_other_bytes_in_the_middle(lab, lake):
    part, *_ = lab.stream.parts()
    files = copy_to(lake, [part])
    file = lake_path(lake, part)
    data = bytearray(file.read_bytes())
    data[(part.entry.size - part.entry.footer_bytes) // 2] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(CorruptionError, match="does not match its digest"):
        let_go(lab, lake, files)
    assert part in here(lab)


def test_file_stays_that_the_store_does_not_give_and_the_next_ones_go(lab, lake):
    lab.append_orders(50)
    lab.stream.seal()
    first, second = lab.stream.parts()
    files = copy_to(lake, [first, second])
    assert let_go(lab, lake, files, unread=[first]) == 1
    assert here(lab) == [first]
    assert let_go(lab, lake, files) == 1


def test_bounded_call_asks_for_few_files_that_the_store_does_not_give(lab, lake):
    for _ in range(5):
        lab.append_orders(50)
        lab.stream.seal()
    parts = lab.stream.parts()
    files = copy_to(lake, parts)
    assert let_go(lab, lake, files, bytes_max=2**30, unread=parts[:3]) == 0
    assert let_go(lab, lake, files, unread=parts[:3]) == len(parts) - 3
    assert here(lab) == parts[:3]


def test_files_go_by_so_many_bytes_a_call(lab, lake):
    lab.append_orders(50)
    lab.stream.seal()
    parts = lab.stream.parts()
    files = copy_to(lake, parts)
    assert len(parts) == 2
    assert let_go(lab, lake, files, bytes_max=1) == 1
    assert let_go(lab, lake, files, bytes_max=1) == 1
    assert not here(lab)


def test_files_stay_whose_blocks_a_trim_will_need(lab, lake):
    files = copy_to(lake, lab.stream.parts())
    lab.stream.alter(keep_hot=HOUR)
    assert let_go(lab, lake, files) == 0
    lab.stream.trim()
    assert let_go(lab, lake, files) == len(files)


def test_keep_local_may_be_nothing_and_not_less():
    assert StreamOptions(keep_local=timedelta(0)).keep_local == timedelta(0)
    with pytest.raises(ValueError, match="keep_local"):
        StreamOptions(keep_local=-HOUR)
