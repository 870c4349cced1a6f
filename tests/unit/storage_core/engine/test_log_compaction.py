"""Joining: which small files become large ones, how often a block is rewritten, what stops it."""

import logging
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.engine.log_compaction import (
    CHECK_BYTES,
    LARGE_BYTES,
    SETTLED_BYTES,
    LogCompactor,
    files_to_compact,
)
from storage_core.errors import UnavailableError
from tests.unit.storage_core.engine.stores import GatheringStore, files_of, grown

MIB = 2**20


@pytest.mark.parametrize(
    ("sizes", "group"),
    [
        ([], slice(0, 0)),
        ([16] * 7, slice(0, 0)),
        ([16] * 8, slice(0, 8)),
        ([1] * 7 + [16], slice(0, 0)),
        ([16] + [1] * 8, slice(1, 9)),
        ([4] + [1] * 12, slice(0, 13)),
        ([128] * 20, slice(0, 0)),
        ([127, 128, 127], slice(0, 0)),
        ([100, 100, 100, 1], slice(0, 3)),
        ([128, 100, 100, 100], slice(1, 4)),
    ],
)
def test_group_to_join_is(sizes, group):
    files = files_of(*(size * MIB for size in sizes))
    assert files_to_compact(files) == files[group]


@given(st.lists(st.integers(1, 16 * MIB), min_size=1, max_size=300))
def test_group_is_of_small_neighbours_and_quadruples_or_settles(sizes):
    files = files_of(*sizes)
    group = files_to_compact(files)
    total = sum(file.size for file in group)
    assert list(group) in [files[at : at + len(group)] for at in range(len(files))]
    assert all(file.size < LARGE_BYTES for file in group)
    assert not group or total >= SETTLED_BYTES or total >= 4 * max(file.size for file in group)


@given(st.integers(MIB // 4, 16 * MIB))
def test_blocks_are_rewritten_four_times_at_most_and_files_become_few(flush):
    files, times, _ = grown([flush] * (2**30 // flush))
    assert max(times) <= 4
    assert len(files) <= 2**30 // LARGE_BYTES + 20


def test_flushes_of_sixteen_mib_are_rewritten_once():
    _, _, amplification = grown([16 * MIB] * 512)
    assert amplification == 1


def test_files_are_looked_at_when_enough_was_written():
    store = GatheringStore(*[16 * MIB] * 7)
    compactor = LogCompactor(store, store.start)
    store.add(16 * MIB)
    compactor.count_written(CHECK_BYTES - 1)
    assert not store.joined
    compactor.count_written(1)
    assert store.joined == [("0", "7")]


def test_many_small_files_found_at_opening_are_joined_then():
    store = GatheringStore(*[MIB] * 1000)
    LogCompactor(store, store.start)
    assert [file.size for file in store.files][:3] == [256 * MIB] * 3


def test_file_that_cannot_be_read_is_left_alone_and_those_around_it_joined():
    store = GatheringStore(*[16 * MIB] * 20, unreadable={"10"})
    LogCompactor(store, store.start)
    assert store.joined == [("0", "9"), ("11", "19")]


def test_only_files_that_were_there_at_opening_are_read_through():
    store = GatheringStore(*[16 * MIB] * 7)
    compactor = LogCompactor(store, store.start)
    store.add(16 * MIB)
    compactor.count_written(CHECK_BYTES)
    assert store.read == [str(at) for at in range(7)]


def test_nothing_is_joined_where_the_disk_is_nearly_full():
    store = GatheringStore(*[16 * MIB] * 8)
    LogCompactor(store, store.start, lambda _: 255 * MIB)
    assert not store.joined


def test_join_that_failed_is_told_and_not_tried_again(caplog):
    store = GatheringStore(*[16 * MIB] * 8, failure=UnavailableError("no more open files"))
    with caplog.at_level(logging.WARNING):
        compactor = LogCompactor(store, store.start)
    compactor.count_written(CHECK_BYTES)
    assert store.tries == 1
    assert "no more open files" in caplog.text


def test_join_that_changed_nothing_is_not_repeated():
    store = GatheringStore(*[16 * MIB] * 8, joins_nothing=True)
    LogCompactor(store, store.start)
    assert store.tries == 1


def test_nothing_begins_after_the_stop():
    store = GatheringStore(*[16 * MIB] * 7)
    compactor = LogCompactor(store, store.start)
    compactor.stop()
    store.add(16 * MIB)
    compactor.count_written(CHECK_BYTES)
    assert not store.joined


def test_stop_takes_back_what_has_not_begun():
    store = GatheringStore(*[16 * MIB] * 8)
    waiting: Future[None] = Future()
    LogCompactor(store, lambda _: waiting).stop()
    assert waiting.cancelled()


def test_where_no_thread_can_be_had_files_stay_as_they_are():
    store = GatheringStore(*[16 * MIB] * 8)
    compactor = LogCompactor(store, lambda _: None)
    compactor.count_written(CHECK_BYTES)
    compactor.stop()
    assert not store.joined
