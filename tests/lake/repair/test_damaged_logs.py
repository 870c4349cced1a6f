"""A shard whose log is damaged keeps no other from being compared, repaired, published and told."""

import shutil

import pytest

from storage_core import CorruptionError
from storage_core.lake import check_lake, lake_status
from storage_core.lake.publish import publish_stream
from tests.lake.repair.repair_lab import path_of
from tests.lake.support.damaged_logs import DAMAGES, lose_marker, lose_shard, spoil_store
from tests.log.parts.parts_lab import NAME

of_each_damage = pytest.mark.parametrize("damage", DAMAGES)
# Found as the shard is opened, and as it is read.
early_and_late = pytest.mark.parametrize("damage", [lose_marker, lose_shard, spoil_store])


def damaged_and_sound(lab, damage):
    """Publish, damage the log of one shard, and return that beside a part of another."""
    part = lab.fill_and_publish().part()
    damaged = 1 - part.shard
    lab.damage_log(damaged, damage)
    return damaged, part


def logs_told(problems):
    """Return the shards that are told as such that cannot be read."""
    return [problem.shard for problem in problems if problem.kind == "log"]


@early_and_late
def test_other_shards_are_repaired(lab, damage):
    damaged, part = damaged_and_sound(lab, damage)
    lab.lose_stored(part)
    done = lab.try_repair()
    assert [(file.kind, file.file) for file in done.repaired] == [("uploaded", path_of(part))]
    assert [(one.kind, one.shard) for one in done.left.problems] == [("log", damaged)]
    assert done.errors == ()


@of_each_damage
def test_other_shards_are_compared(lab, damage):
    damaged, part = damaged_and_sound(lab, damage)
    lab.damage_stored(part)
    problems = check_lake(lab.root, NAME, read=True).problems
    assert logs_told(problems) == [damaged]
    assert ("digest", path_of(part)) in [(one.kind, one.file) for one in problems]


@early_and_late
def test_status_shows_other_shards_and_how_far_the_damaged_one_is_published(lab, damage):
    before = lab.fill_and_publish().published()
    damaged = 1 - lab.part().shard
    lab.damage_log(damaged, damage)
    status = lake_status(lab.root, NAME)
    assert {shard: one.published for shard, one in status.shards.items()} == {
        1 - damaged: before[1 - damaged]
    }
    assert {shard: one.published for shard, one in status.unread.items()} == {
        damaged: before[damaged]
    }


@pytest.mark.parametrize("damage", [lose_marker, lose_shard])
def test_other_shards_are_published_before_the_damage_is_told(lab, damage):
    lab.fill_and_publish()
    before = lab.published()
    lab.begin_hour().fill(60)
    damaged = lab.part().shard
    lab.damage_log(damaged, damage)
    with pytest.raises(CorruptionError) as raised:
        publish_stream(lab.root, NAME)
    assert (raised.value.stream, raised.value.shard) == (NAME, damaged)
    status = lake_status(lab.root, NAME)
    assert status.shards[1 - damaged].published > before[1 - damaged]
    assert status.unread[damaged].published == before[damaged]


@early_and_late
def test_line_of_a_damaged_log_names_stream_shard_and_path(lab, damage):
    part = lab.fill_and_publish().part()
    directory = lab.damage_log(part.shard, damage)
    (problem,) = check_lake(lab.root, NAME).problems
    assert f"stream {NAME!r}, shard {part.shard}" in problem.message
    assert f"at {directory}" in problem.message


def test_files_of_a_shard_whose_log_is_damaged_are_compared_without_it(lab):
    part = lab.fill_and_publish().part()
    lab.damage_log(part.shard, lose_marker)
    lab.damage_stored(part)
    assert sorted(lab.problems()) == [("digest", path_of(part)), ("log", None)]
    lab.lose_stored(part)
    assert sorted(lab.problems(read=False)) == [("gone", path_of(part)), ("log", None)]


def test_log_of_another_stream_in_the_place_of_a_shard_s_is_told(lab, tmp_path):
    other = type(lab)(tmp_path / "other")
    other.stream.close()
    part = lab.fill_and_publish().part()
    directory = lab.damage_log(part.shard, shutil.rmtree)
    shutil.copytree(other.root / NAME / directory.name, directory)
    assert lab.problems(read=False) == [("log", None)]


def test_stream_none_of_whose_logs_can_be_read_is_told_shard_by_shard(lab):
    lab.fill_and_publish()
    for shard in (0, 1):
        lab.damage_log(shard, lose_shard)
    done = lab.try_repair()
    assert (done.repaired, logs_told(done.left.problems)) == ((), [0, 1])


def test_damaged_log_is_told_though_nothing_was_published(lab):
    lab.fill(20)
    lab.damage_log(1, lose_marker)
    done = lab.try_repair()
    assert (done.left.version, logs_told(done.left.problems)) == (None, [1])
