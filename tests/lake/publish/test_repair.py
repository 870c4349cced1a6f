"""What a table or its store has lost is told by a publish, and made good by a repair."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from connectors.cli.exit_codes import EXIT_DAMAGE
from storage_core import CorruptionError, InvalidRequestError
from storage_core.lake.maintenance.comparison import check_lake
from storage_core.lake.publish import publish_stream
from storage_core.lake.repair.repair import repair_lake
from storage_core.lake.repair.report import LakeRepair
from tests.lake.publish.publish_lab import PublishLab
from tests.lake.support.stores import DirectoryStore
from tests.log.parts.parts_lab import NAME
from tests.unit.connectors.command import runner


@pytest.fixture
def lake(root: Path) -> DirectoryStore:
    return DirectoryStore(root)


@pytest.fixture
def lab(root: Path, lake: DirectoryStore) -> PublishLab:
    return PublishLab(root, lake)


def restore_first_rows(lab: PublishLab) -> None:
    """Publish twice, and let another program restore what the table was between."""
    lab.fill(60).publish()
    version = lab.opened().version()
    lab.fill(60).publish()
    lab.opened().restore(version)


def lose_a_file(lab: PublishLab, lake: DirectoryStore) -> str:
    """Let the store lose a file that the table names."""
    lab.fill(60).publish()
    path = next(path for path in lake.paths(lab.target) if path.startswith("shard="))
    lake.delete(lab.target, path)
    return path


def repair(lab: PublishLab, **named: Any) -> LakeRepair:
    return repair_lake(lab.root, NAME, lab.target, **named)


def uploaded(done: LakeRepair) -> list[str]:
    assert done.is_clean
    return [file.file for file in done.repaired if file.kind == "uploaded"]


def is_sound(lab: PublishLab) -> bool:
    return not check_lake(lab.root, NAME, lab.target, read=True).problems


def test_part_that_the_table_lacks_is_named(lab):
    restore_first_rows(lab)
    with pytest.raises(CorruptionError, match=r"names no file of part-\d+.*lake repair") as raised:
        lab.publish()
    assert raised.value.start is not None


def test_new_rows_are_published_though_the_table_lacks_a_part(lab):
    restore_first_rows(lab)
    lab.fill(60)
    with pytest.raises(CorruptionError):
        lab.publish()
    assert lab.published() == {
        shard: sealed for shard, (sealed, _) in lab.stream.part_marks().items()
    }


def test_rows_of_a_restored_table_are_brought_back_and_streamed_once(lab):
    restore_first_rows(lab)
    version = lab.opened().version()
    assert uploaded(repair(lab))
    assert lab.opened().version() == version + 1
    assert lab.places() == sorted(lab.visible())
    assert is_sound(lab)
    lab.changes.check()
    assert lab.publish().commits == 0


def test_file_that_the_store_lost_is_uploaded_again_under_its_name(lab, lake):
    path = lose_a_file(lab, lake)
    assert lab.publish().commits == 0
    version = lab.opened().version()
    assert uploaded(repair(lab)) == [path]
    assert lab.opened().version() == version
    assert path in lake.paths(lab.target)
    assert is_sound(lab)
    assert repair(lab).repaired == ()


def test_file_of_a_part_with_hidden_rows_is_made_anew(lab, lake):
    lab.fill(200)
    lab.expire(150)
    lab.publish()
    for path in lake.paths(lab.target):
        if path.startswith("shard="):
            lake.delete(lab.target, path)
    repair(lab)
    assert is_sound(lab)
    lab.check()


def test_file_that_nobody_has_is_told(lab, lake):
    path = lose_a_file(lab, lake)
    for part in lab.stream.parts():
        part.path.unlink()
    done = repair(lab)
    assert done.repaired == ()
    assert [problem.file for problem in done.left.problems if problem.kind == "gone"] == [path]


def test_file_that_only_the_lake_had_is_told(lab, lake):
    lab.stream.alter(lake=lab.target.uri, keep_local=timedelta(0))
    lab.fill(60)
    publish_stream(lab.root, NAME)
    path = next(path for path in lake.paths(lab.target) if path.startswith("shard="))
    lake.delete(lab.target, path)
    (problem,) = repair(lab).left.problems
    assert (problem.kind, problem.file) == ("gone", path)


def test_table_that_another_program_wrote_is_published_once_the_version_before_is_back(lab):
    lab.fill(60).publish()
    version = lab.opened().version()
    lab.opened().delete("secondary = 3")
    with pytest.raises(InvalidRequestError, match=r"another program has written .*RESTORE"):
        lab.fill(30).publish()
    lab.opened().restore(version)
    lab.publish()
    assert is_sound(lab)


def test_command_tells_what_is_lost_and_how_much_it_brought_back(lab, capsys):
    restore_first_rows(lab)
    lab.stream.alter(lake=lab.target.uri)
    shardlog = runner(capsys)
    refused = shardlog("lake", "publish", lab.root, NAME)
    assert (refused.code, refused.err.count("\n")) == (EXIT_DAMAGE, 1)
    assert "lake repair" in refused.err
    repaired = shardlog("lake", "repair", lab.root, NAME)
    assert (repaired.code, repaired.err) == (0, "")
    assert "uploaded" in repaired.lines[1]
    assert repaired.lines[-1].endswith("left: no problems")
