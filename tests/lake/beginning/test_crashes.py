"""A process that dies while a log begins from its table leaves nothing that counts."""

import itertools
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest

from storage_core import Stream, StreamReader, UnavailableError, describe_stream
from storage_core.catalog import begun_shards
from storage_core.catalog.begun_shards import put_begun_log
from storage_core.lake import begin_from_lake
from storage_core.lake.beginning import begin
from storage_core.lake.beginning.table_parts import read_footers
from storage_core.lake.file_store import FileStore
from storage_core.parts.snapshot import parts_directory
from storage_core.testing import FaultyDisk, SimulatedCrash
from tests.lake.beginning.beginning_lab import NAME, SHARD, BeginningLab
from tests.lake.publish.publish_lab import dying
from tests.lake.support.damaged_logs import lose_marker, lose_shard
from tests.lake.support.synced import syncs

# Each by the name under which the course of it knows it: of a shard that is new in its root, and
# of one that takes the place of another.
NEW = ("make_shard", "move_directory", "rewritten")
IN_PLACE = ("make_shard", "archived_log", "move_directory", "put_in_place", "move_aside")


@contextmanager
def dying_at(name: str, *, behind: bool) -> Iterator[None]:
    """Let the process die at a step by which a log gets its place; nothing of it is tidied up."""
    usual = getattr(begun_shards, name)

    def dies(*arguments: Any, **named: Any) -> Any:
        if behind:
            usual(*arguments, **named)
        raise SimulatedCrash(name)

    with (
        patch.object(begun_shards, name, dies),
        patch.object(shutil, "rmtree", lambda *_, **__: None),
    ):
        yield


def shards_of(root: Any) -> list[int]:
    with StreamReader.open(root.root, NAME) as reader:
        return sorted(reader.committed())


@pytest.mark.parametrize("had_it_before", [False, True])
def test_next_call_begins_as_if_there_had_been_none(lab, had_it_before):
    lab.published(60)
    heirs = []
    for step, behind in product(IN_PLACE if had_it_before else NEW, (False, True)):
        heir = lab.new_root()
        if had_it_before:
            begin_from_lake(heir.root, NAME, [SHARD])
        with pytest.raises(SimulatedCrash, match=step), dying_at(step, behind=behind):
            begin_from_lake(heir.root, NAME, [SHARD])
        assert shards_of(heir) in ([], [SHARD])
        begin_from_lake(heir.root, NAME, [SHARD])
        assert not list(heir.root.glob(f"{NAME}/~begun~*"))
        lab.check_rows(heir)
        heirs.append(heir)
    lab.take_over(heirs[-1])
    lab.append(40)
    lab.check()
    assert lab.problems() == []


def test_store_that_is_not_whole_is_never_a_shard_s(make_lab):
    lab: BeginningLab = make_lab()
    lab.published(60)
    heir = lab.new_root()
    crash_at = 1
    while True:
        disk = FaultyDisk(crash_at=crash_at)
        try:
            begun = begin_from_lake(
                heir.root, NAME, [SHARD], environment=disk.environment(lab.clock)
            )
        except SimulatedCrash:
            disk.bury()
            assert shards_of(heir) == []
            crash_at += 1
            continue
        break
    disk.bury()
    assert crash_at > 3
    assert begun[SHARD].files > 0
    lab.take_over(heir)
    lab.check()


def test_log_does_not_begin_from_a_lake_that_the_stream_has_no_more(lab, monkeypatch):
    lab.published(60)
    heir = lab.new_root()

    def altered(*arguments):
        with Stream.open(heir.root, NAME) as stream:
            stream.alter(lake=f"{lab.target.uri}-elsewhere")
        return read_footers(*arguments)

    monkeypatch.setattr(begin, "read_footers", altered)
    with pytest.raises(UnavailableError, match="another lake meanwhile"):
        begin_from_lake(heir.root, NAME, [SHARD])
    assert shards_of(heir) == []
    assert begin_from_lake(heir.root, NAME, [SHARD]) == {}


def test_of_two_who_begin_a_shard_at_once_one_does(lab, monkeypatch):
    lab.published(60)
    heir = lab.new_root()
    usual = read_footers

    def beaten(*arguments):
        monkeypatch.setattr(begin, "read_footers", usual)
        begin_from_lake(heir.root, NAME, [SHARD])
        return usual(*arguments)

    monkeypatch.setattr(begin, "read_footers", beaten)
    with pytest.raises(UnavailableError, match="another process has put a log in the shard's"):
        begin_from_lake(heir.root, NAME, [SHARD])
    lab.check_rows(heir)
    lab.take_over(heir)
    assert lab.problems() == []


@pytest.mark.parametrize("call", [1, 2, 5])
def test_begin_that_is_interrupted_leaves_nothing_and_no_thread_at_work(lab, monkeypatch, call):
    lab.published(*[30] * 6)
    heir = lab.new_root()
    usual, calls = FileStore.opened, itertools.count(1)

    def interrupted(store, path):
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return usual(store, path)

    monkeypatch.setattr(FileStore, "opened", interrupted)
    with pytest.raises(KeyboardInterrupt):
        begin_from_lake(heir.root, NAME, [SHARD])
    begun = next(calls)
    assert shards_of(heir) == []
    begin_from_lake(heir.root, NAME, [SHARD])
    assert next(calls) > begun
    lab.check_rows(heir)


def test_all_of_a_log_outlasts_a_loss_of_power_before_it_has_its_place(make_lab, monkeypatch):
    lab: BeginningLab = make_lab(jitter=0)
    lab.published(60, 60)
    heir = lab.new_root()
    usual = put_begun_log
    checked: list[int] = []

    def put(files, log, *arguments, **named):
        parts = parts_directory(log.directory)
        brought = {*parts.iterdir()}
        assert brought, "some rows came out of order"
        assert {*brought, parts, log.directory / "db", log.directory} <= synced
        checked.append(log.shard)
        return usual(files, log, *arguments, **named)

    monkeypatch.setattr(begin, "put_begun_log", put)
    with syncs() as synced:
        begin_from_lake(heir.root, NAME, [SHARD])
    assert checked == [SHARD]


@pytest.mark.parametrize("damage", [lose_marker, lose_shard])
def test_next_call_begins_in_the_place_of_a_damaged_log(lab, damage):
    lab.published(60)
    for step, behind in product(IN_PLACE, (False, True)):
        heir = lab.new_root()
        begin_from_lake(heir.root, NAME, [SHARD])
        damage(describe_stream(heir.root, NAME).directories[SHARD])
        with pytest.raises(SimulatedCrash, match=step), dying_at(step, behind=behind):
            begin_from_lake(heir.root, NAME, [SHARD])
        begin_from_lake(heir.root, NAME, [SHARD])
        lab.check_rows(heir)


def test_log_without_a_marker_shows_its_rows_though_who_began_anew_was_killed(lab):
    lab.published(60)
    lab.append(20)
    lab.owner.stream.close()
    lose_marker(describe_stream(lab.owner.root, NAME).directories[SHARD])
    with pytest.raises(SimulatedCrash), dying_at("put_in_place", behind=False):
        begin_from_lake(lab.owner.root, NAME, [SHARD])
    lab.owner.open()
    lab.check()


def test_dead_letters_outlive_an_owner_that_died_once_it_had_published_merged_parts(make_lab):
    lab: BeginningLab = make_lab(block_records=4096, retention=None)
    lab.append_dead_letter()
    # A large part, which is not merged, and a small one: one run tells of both.
    for count in (40_000, 4):
        lab.append_columns({"secondary": [1] * count})
        lab.owner.stream.seal()
    lab.publish()
    for _ in range(10):
        lab.append_columns({"secondary": [1] * 4})
        lab.owner.stream.seal()
    lab.publish()
    lab.take_over()
    lab.owner.stream.compact()
    assert len(lab.owner.stream.parts()) == 2
    with pytest.raises(SimulatedCrash), dying(1, "commit_all", behind=True):
        lab.publish()
    lab.take_over()
    lab.check()
