"""How far upkeep is told to be: often, never too far, and never taken back."""

from itertools import pairwise

from storage_core.parts import part_file
from storage_core.tiering.step import BUILD_PASSES, RowProgress
from tests.log.parts.parts_lab import PartsLab


def test_each_time_over_rows_counts_for_its_share():
    told: list[int] = []
    rows = RowProgress(told.append, BUILD_PASSES)
    for _ in range(BUILD_PASSES):
        rows.on_rows(30)
    rows.end_step(30)
    rows.on_rows(9)
    assert told == [10, 20, 30, 30, 33]


def test_nobody_need_listen():
    RowProgress(None, BUILD_PASSES).end_step(5)


def test_seal_and_trim_tell_of_each_group_and_block(root, monkeypatch):
    monkeypatch.setattr(part_file, "GROUP_ROWS", 10)
    with PartsLab(root).stream as stream:
        for first in range(0, 100, 20):
            for number in range(first, first + 20):
                stream.append(number, 1, b"v%d" % number)
            stream.commit()
        sealed: list[int] = []
        trimmed: list[int] = []
        stream.seal(progress=sealed.append)
        stream.trim(progress=trimmed.append)
    for told, least in ((sealed, 3 * 5), (trimmed, 5)):
        assert told[-1] == 100
        assert all(before <= after for before, after in pairwise(told))
        assert len(set(told)) >= least
