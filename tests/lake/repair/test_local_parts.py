"""A part that is damaged or gone on this machine is brought from whoever has its digest."""

import shutil
from datetime import timedelta

import pytest

from storage_core import CorruptionError, InvalidRequestError, StreamReader, UnavailableError
from storage_core.lake.image_names import whole_image_name
from storage_core.lake.publish import publish_stream
from tests.lake.publish.publish_lab import dying
from tests.lake.repair.repair_lab import RepairLab, flipped, path_of
from tests.log.parts.parts_lab import NAME


def test_damaged_part_is_told_by_a_check_that_reads(lab):
    part = lab.fill_and_publish().part()
    lab.damage(part)
    assert lab.problems(read=False) == []
    assert ("part", part.path.name) in lab.problems()


def test_cut_part_is_told_by_its_size(lab):
    part = lab.fill_and_publish().part()
    part.path.write_bytes(part.path.read_bytes()[:-1])
    assert lab.problems(read=False) == [("part", part.path.name)]


def test_damaged_part_is_brought_from_the_lake(lab):
    part = lab.fill_and_publish().part()
    before = part.path.read_bytes()
    lab.damage(part)
    assert lab.repair(read=True) == [("from lake", part.path.name)]
    assert part.path.read_bytes() == before
    lab.check()
    assert lab.repair(read=True) == []


def test_other_programs_see_the_part_that_was_brought(lab):
    part = lab.fill_and_publish().part()
    lab.damage(part)
    lab.repair(read=True)
    (visible,) = part.path.parents[1].glob(f"parts/{part.path.stem}.parquet")
    assert visible.samefile(part.path)


def test_part_that_is_gone_here_is_read_from_the_lake_and_no_damage(lab):
    part = lab.fill_and_publish().part()
    lab.lose(part)
    assert lab.problems() == []
    assert lab.repair(read=True) == []


def test_damaged_part_that_is_to_go_is_left_to_the_lake(lab):
    part = lab.fill_and_publish().part()
    lab.damage(part)
    lab.stream.alter(keep_local=timedelta(0))
    assert ("left to lake", part.path.name) in lab.repair(read=True)
    assert not part.path.exists()
    lab.check()


def test_damaged_part_whose_stored_file_is_damaged_too_stays_and_is_told(lab):
    part = lab.fill_and_publish().part()
    lab.damage(part)
    lab.damage_stored(part)
    data = part.path.read_bytes()
    done = lab.try_repair(read=True)
    assert done.repaired == ()
    left = {(problem.kind, problem.start) for problem in done.left.problems}
    assert left == {("part", part.entry.first), ("digest", part.entry.first)}
    assert part.path.read_bytes() == data


@pytest.fixture
def in_bucket(root, bucket_store, monkeypatch):
    """A lab whose table is in a bucket, of which files can be archived."""
    for name, value in bucket_store.options.items():
        monkeypatch.setenv(name, value)
    lab = RepairLab(root, bucket_store)
    yield lab
    lab.stream.close()


def test_other_parts_are_repaired_beside_one_that_the_store_does_not_give(in_bucket):
    lab = in_bucket.fill_and_publish().fill_and_publish()
    first, second = [part for part in lab.stream.parts() if part.shard == lab.part().shard][:2]
    for part in (first, second):
        lab.damage(part)
    lab.store.archive(lab.target, path_of(first))
    done = lab.try_repair(read=True)
    assert [(file.kind, file.file) for file in done.repaired] == [("from lake", second.path.name)]
    left = {(problem.kind, problem.start) for problem in done.left.problems}
    assert left == {("part", first.entry.first), ("unread", first.entry.first)}
    assert done.errors == ()


def test_repair_that_reads_nothing_tells_what_the_store_did_not_give(in_bucket):
    part = in_bucket.fill_and_publish().part()
    part.path.write_bytes(part.path.read_bytes()[:-1])
    in_bucket.store.archive(in_bucket.target, path_of(part))
    left = in_bucket.try_repair().left
    assert {(problem.kind, problem.file) for problem in left.problems} == {
        ("part", part.path.name),
        ("unread", path_of(part)),
    }


def test_part_that_the_store_does_not_give_is_taken_from_a_copy(in_bucket):
    part = in_bucket.fill_and_publish().part()
    copy = in_bucket.copied_root()
    in_bucket.damage(part)
    in_bucket.store.archive(in_bucket.target, path_of(part))
    done = in_bucket.try_repair(read=True, roots=[copy])
    assert [(file.kind, file.file) for file in done.repaired] == [("from copy", part.path.name)]
    assert {problem.kind for problem in done.left.problems} == {"unread"}


def test_what_was_repaired_here_is_told_beside_a_store_that_takes_nothing(lab):
    lab.fill_and_publish().fill_and_publish()
    first, second = [part for part in lab.stream.parts() if part.shard == lab.part().shard][:2]
    lab.damage(first)
    lab.lose_stored(second)
    with dying(1, "put", error=UnavailableError):
        done = lab.try_repair(read=True)
    assert [(file.kind, file.file) for file in done.repaired] == [("from lake", first.path.name)]
    assert [type(error) for error in done.errors] == [UnavailableError]
    assert lab.repair(read=True) == [("uploaded", path_of(second))]


def test_damaged_part_that_was_rewritten_for_the_table_is_told(lab):
    lab.fill(200)
    lab.expire(150)
    publish_stream(lab.root, NAME)
    stored = lab.store.paths(lab.target)
    part = next(
        part
        for part in lab.stream.parts()
        if whole_image_name(part.shard, part.entry) not in stored
        and any(part.entry.digest.hex() in path for path in stored)
    )
    lab.lose(part)
    assert ("part", part.path.name) in lab.problems(read=False)
    assert lab.try_repair().repaired == ()
    lab.stream.seal(rebuild=True)
    assert lab.repair(read=True) == []


def test_damaged_file_of_the_store_is_uploaded_again(lab):
    part = lab.fill_and_publish().part()
    lab.damage_stored(part)
    path = whole_image_name(part.shard, part.entry)
    assert lab.problems() == [("digest", path)]
    assert lab.repair(read=True) == [("uploaded", path)]
    lab.check()


def test_what_can_be_had_is_repaired_beside_what_nobody_has(lab):
    lab.fill_and_publish()
    lab.fill_and_publish()
    first, second = [part for part in lab.stream.parts() if part.shard == lab.part().shard][:2]
    for part in (first, second):
        lab.lose_stored(part)
    lab.lose(first)
    done = lab.try_repair()
    path = whole_image_name(second.shard, second.entry)
    assert [(file.kind, file.file) for file in done.repaired] == [("uploaded", path)]
    assert [problem.start for problem in done.left.problems] == [first.entry.first]


def test_file_that_neither_has_is_taken_from_another_root(lab):
    part = lab.fill_and_publish().part()
    copy = lab.copied_root()
    lab.lose(part)
    lab.lose_stored(part)
    assert lab.try_repair().repaired == ()
    path = whole_image_name(part.shard, part.entry)
    assert lab.repair(roots=[copy]) == [("from copy", part.path.name), ("uploaded", path)]
    lab.check()


def test_copy_of_other_bytes_is_not_taken(lab):
    part = lab.fill_and_publish().part()
    copy = lab.copied_root()
    (other,) = (copy / part.path.relative_to(lab.root),)
    other.write_bytes(bytes(part.entry.size))
    lab.lose(part)
    lab.lose_stored(part)
    assert lab.try_repair(roots=[copy]).repaired == ()


def test_root_without_the_stream_is_refused(lab, tmp_path):
    lab.fill_and_publish()
    with pytest.raises(InvalidRequestError, match="no stream"):
        lab.repair(roots=[tmp_path])


def test_name_of_a_part_that_leads_nowhere_is_no_copy(lab):
    part = lab.fill_and_publish().part()
    copy = lab.copied_root()
    lab.lose(part)
    lab.lose_stored(part)
    copied = copy / part.path.relative_to(lab.root)
    copied.with_name("part-0000000099.rows").symlink_to(copy / "nothing")
    assert lab.repair(roots=[copy])


def test_root_that_cannot_be_looked_into_is_told(lab):
    part = lab.fill_and_publish().part()
    copy = lab.copied_root()
    lab.lose(part)
    lab.lose_stored(part)
    parts = (copy / part.path.relative_to(lab.root)).parent
    shutil.rmtree(parts)
    parts.symlink_to(parts)
    with pytest.raises(UnavailableError, match="looking for copies of parts"):
        lab.repair(roots=[copy])


def test_root_by_no_name_that_a_disk_may_have_is_refused_before_anything_is_read(lab, tmp_path):
    part = lab.fill_and_publish().part()
    lab.damage(part)
    rows: list[int] = []
    with pytest.raises(UnavailableError, match="too long"):
        lab.repair(roots=[tmp_path / ("x" * 300)], read=True, on_rows=rows.append)
    assert rows == []


def test_what_a_crash_left_is_removed_by_the_next_repair(lab):
    part = lab.fill_and_publish().part()
    lab.damage(part)
    left = part.path.with_name(f"{part.path.name}.0123456789abcdef.draft")
    left.touch()
    lab.repair(read=True)
    assert not left.exists()


def test_reader_that_met_the_damage_reads_on_once_it_is_repaired(lab):
    part = lab.fill_and_publish().part()
    lab.stream.trim()
    lab.damage(part)
    with StreamReader.open(lab.root, NAME) as reader:
        with pytest.raises(CorruptionError):
            reader.read()
        lab.repair(read=True)
        assert reader.read().num_rows == len(lab.visible())


def test_part_that_the_log_cannot_rebuild_is_brought_from_the_lake(lab):
    part = lab.fill_and_publish().part()
    rows = len(lab.visible())
    lab.stream.trim()
    lab.damage(part)
    with pytest.raises(CorruptionError, match="`shardlog lake repair` brings it") as raised:
        lab.stream.seal(rebuild=True)
    assert (raised.value.start, raised.value.end) == (part.entry.first, part.entry.last + 1)
    assert not any(lab.stream.lost_ranges().values())
    assert lab.repair(read=True) == [("from lake", part.path.name)]
    assert len(lab.visible()) == rows
    assert not lab.stream.seal(rebuild=True).steps


def test_stored_file_that_is_damaged_takes_no_part_s_place_though_nobody_had_read_it(lab):
    part = lab.fill_and_publish().part()
    cut = part.path.read_bytes()[:-1]
    part.path.write_bytes(cut)
    lab.damage_stored(part)
    assert lab.try_repair().repaired == ()
    assert part.path.read_bytes() == cut
    assert list(part.path.parent.glob("*.draft")) == []


def test_copy_that_changed_since_it_was_found_is_not_taken(lab):
    part = lab.fill_and_publish().part()
    root = lab.copied_root()
    lab.lose(part)
    lab.lose_stored(part)
    with lab.copies_found(part, root) as repair:
        copy = root / part.path.relative_to(lab.root)
        copy.write_bytes(flipped(copy.read_bytes()))
        repair()
    assert list(part.path.parent.glob(f"{part.path.name}*")) == []


def test_copy_that_its_owner_merged_since_it_was_found_is_taken_from_the_next_root(lab):
    part = lab.fill_and_publish().part()
    data = part.path.read_bytes()
    roots = [lab.copied_root(name) for name in ("copy", "other")]
    lab.lose(part)
    lab.lose_stored(part)
    with lab.copies_found(part, *roots) as repair:
        (roots[0] / part.path.relative_to(lab.root)).unlink()
        repair()
    assert part.path.read_bytes() == data
