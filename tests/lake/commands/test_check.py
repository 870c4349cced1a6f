"""`shardlog lake check` and `vacuum`: damage is told by its range, what is well is no damage."""

from datetime import timedelta

import pytest
from deltalake import DeltaTable

from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_UNAVAILABLE, EXIT_USAGE
from storage_core.lake.shard_change import TableFile
from tests.lake.commands.command_lab import CommandLab
from tests.lake.support.foreign_writers import add_outside_of_directories, move_shard_1
from tests.log.parts.parts_lab import NAME

ORPHAN = f"shard=0/{1:020}-{2:020}-{'a' * 32}.parquet"


@pytest.fixture
def published(lab):
    """A lab whose parts are all in the table."""
    lab.fill(200)
    lab.begin_hour()
    lab.fill(200)
    assert lab.lake("publish").code == 0
    return lab


def unpublished(rows):
    return f"  not published yet: {rows} rows; `shardlog lake publish` publishes what is sealed"


def problems(lab, *arguments):
    ran = lab.lake("check", "--json", *arguments)
    (report,) = ran.json_lines
    assert ran.code == (EXIT_DAMAGE if report["problems"] else 0), ran.err
    return [(one["kind"], one["start"], one["end"]) for one in report["problems"]]


def test_table_that_is_as_the_parts_are_is_clean(published):
    rows = len(published.places())
    ran = published.lake("check", "--read")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].endswith(f"of {published.target.uri}: no problems")
    assert f" of {rows:,} rows, read whole, " in ran.lines[1]
    assert problems(published) == []


def merge_parts(lab):
    """Publish small parts, and merge them locally."""
    for _ in range(6):
        lab.fill(20)
    assert lab.lake("publish").code == 0
    assert lab.stream.compact().parts_obsolete > 0


def test_what_the_next_publish_does_is_no_damage(published):
    merge_parts(published)
    published.expire(150)
    assert problems(published, "--read") == []
    (report,) = published.lake("check", "--json").json_lines
    assert report["pending"] > 0
    assert "the next publish adds or removes: " in published.lake("check").out
    published.lake("publish")
    (report,) = published.lake("check", "--json", "--read").json_lines
    assert (report["pending"], report["problems"]) == (0, [])


def test_parts_that_only_the_lake_has_are_compared_by_their_names(published):
    published.stream.alter(keep_local=timedelta(0))
    published.fill(20)
    assert published.lake("publish").code == 0
    local = list(published.root.rglob("part-*.rows"))
    assert len(local) < len(published.stream.parts())
    for arguments in ((), ("--read",)):
        assert problems(published, *arguments) == []


def test_part_that_neither_this_machine_nor_the_table_has_is_told(published):
    path, start, end = published.file_of(0)
    published.stream.alter(keep_local=timedelta(0))
    published.fill(20)
    assert published.lake("publish").code == 0
    table = published.opened_table()
    table.commit(0, [], [path], published.published()[0])
    for arguments in ((), ("--read",)):
        assert problems(published, *arguments) == [("missing", start, end)]


def test_stream_without_a_table_is_clean(lab):
    lab.fill(10)
    ran = lab.lake("check")
    none = f"{NAME}: there is no table at {lab.target.uri} yet"
    assert (ran.code, ran.lines) == (0, [none, unpublished(10)])


def test_rows_that_are_not_published_yet_are_told_and_no_damage(published):
    assert "not published yet" not in published.lake("check").out
    published.append(published.rng, 7)
    published.stream.seal()
    published.append(published.rng, 5)
    ran = published.lake("check")
    assert (ran.code, ran.lines[0].endswith("no problems")) == (0, True)
    assert unpublished(12) in ran.lines
    (report,) = published.lake("check", "--json").json_lines
    assert report["unpublished"] == 12


def test_file_that_the_store_lost_is_told_with_its_range(published):
    path, *place = published.file_of(0)
    published.store.delete(published.target, path)
    assert problems(published) == [("gone", *place)]
    ran = published.lake("check")
    assert ran.code == EXIT_DAMAGE
    assert ran.lines[0].split() == ["shard", "start", "end", "problem", "file"]
    assert path in ran.lines[1]
    assert "1 problem" in ran.lines[2]


def test_file_that_was_cut_is_found_by_its_size(published):
    path, *place = published.file_of(1)
    published.change(path, lambda data: data[:-1])
    assert problems(published) == [("size", *place)]


def test_file_of_other_bytes_is_found_by_reading_it(published):
    path, *place = published.file_of(1)
    published.change(path, lambda data: data[:100] + bytes(4) + data[104:])
    assert problems(published) == []
    assert problems(published, "--read") == [("digest", *place)]


def test_file_that_the_store_does_not_give_keeps_no_other_from_being_read(
    tmp_path, bucket_store, shardlog
):
    lab = CommandLab(tmp_path, bucket_store, shardlog)
    lab.fill(200)
    assert lab.lake("publish").code == 0
    (archived, *place), (damaged, *other) = lab.file_of(0), lab.file_of(1)
    bucket_store.archive(lab.target, archived)
    lab.change(damaged, lambda data: data[:100] + bytes(4) + data[104:])
    ran = lab.lake("check", "--read")
    lab.stream.close()
    assert (ran.code, ran.err) == (EXIT_DAMAGE, "")
    assert [line.split()[1:3] for line in ran.lines[1:3]] == [
        [*map(str, place)],
        [*map(str, other)],
    ]
    assert "is in an archive of the store; restore it there first" in ran.lines[1]
    assert "the digest that its name tells" in ran.lines[2]


def test_rows_that_the_table_lacks_or_has_twice_are_told_beside_a_file_that_the_store_does_not_give(
    tmp_path, bucket_store, shardlog
):
    lab = CommandLab(tmp_path, bucket_store, shardlog)
    lab.fill(200)
    assert lab.lake("publish").code == 0
    table = lab.opened_table()
    archived, lost, twice, *_ = sorted(table.files(0))
    bucket_store.archive(lab.target, archived)
    table.commit(0, [], [lost], lab.published()[0])
    assert {kind for kind, *_ in problems(lab)} == {"missing"}
    assert {kind for kind, *_ in problems(lab, "--read")} == {"missing", "unread"}
    assert "; 1 file could not be read" in lab.lake("check", "--read").out
    copy_of_file(lab, twice)
    assert {"twice", "unread"} <= {kind for kind, *_ in problems(lab, "--read")}
    lab.stream.close()


def test_check_of_files_that_the_store_does_not_give_now_is_to_be_tried_again(
    tmp_path, bucket_store, shardlog
):
    lab = CommandLab(tmp_path, bucket_store, shardlog)
    lab.fill(200)
    assert lab.lake("publish").code == 0
    path, *place = lab.file_of(0)
    bucket_store.archive(lab.target, path)
    ran = lab.lake("check", "--read", "--json")
    lab.stream.close()
    (problem,) = ran.json_lines[0]["problems"]
    assert (problem["kind"], problem["start"], problem["end"]) == ("unread", *place)
    assert ran.code == EXIT_UNAVAILABLE
    assert lab.lake("check").code == 0


def test_rows_that_the_table_lost_are_found_with_and_without_reading(published):
    path, start, end = published.file_of(0)
    table = published.opened_table()
    table.commit(0, [], [path], published.published()[0])
    for arguments in ((), ("--read",)):
        ((kind, first, last),) = problems(published, *arguments)
        assert (kind, first, last) == ("missing", start, end)


def test_table_that_another_program_rewrote_is_to_be_restored_and_not_repaired(published):
    table = DeltaTable(published.target.uri, storage_options=dict(published.target.options))
    version, address = table.version(), published.file_of(0)[1]
    table.delete(f"shard = 0 and address = {address}")
    ran = published.lake("check")
    assert (ran.code, "lake repair" in ran.out) == (EXIT_DAMAGE, False)
    assert "restore the version before it" in ran.out
    assert {kind for kind, *_ in problems(published)} == {"foreign", "missing"}
    assert "restore the version before it" in published.lake("repair").err
    table.restore(version)
    assert problems(published, "--read") == []


@pytest.mark.parametrize("write", [add_outside_of_directories, move_shard_1])
def test_file_of_another_program_is_told_by_a_line_wherever_it_lies(published, write):
    version = published.opened().version()
    write(published.opened())
    for arguments in ((), ("--read",)):
        ran = published.lake("check", *arguments)
        (line,) = (line for line in ran.lines if "no file of shardlog" in line)
        assert "restore the version before it" in line
        assert (ran.code, "lake repair" in ran.out) == (EXIT_DAMAGE, False)
        kinds = [kind for kind, *_ in problems(published, *arguments)]
        assert kinds.count("foreign") == 1
    for verb in ("publish", "repair"):
        refused = published.lake(verb)
        assert (refused.code, refused.err.count("\n")) == (EXIT_USAGE, 1)
        assert "restore the version before it" in refused.err
    published.opened().restore(version)
    assert problems(published, "--read") == []


def test_rows_that_the_table_has_twice_are_found_by_reading(published):
    path, start, end = published.file_of(0)
    copy_of_file(published, path)
    assert problems(published, "--read") == [("twice", start, end)]


def copy_of_file(lab, path):
    """Let the table name a copy of a file of shard 0 too."""
    table = lab.opened_table()
    addresses, digest = path[: path.rindex("-")], digest_of(path)
    copy = f"{addresses}-{'b' * 32}-{digest}.parquet"
    lab.store.write(lab.target, copy, lab.store.read(lab.target, path))
    added = TableFile(copy, table.files(0)[path], table.rows(0)[path], "{}", is_new=False)
    table.commit(0, [added], [], lab.published()[0])


def digest_of(path):
    """Return the digest of a file's bytes, as its name tells it."""
    return path.removesuffix(".parquet").split("-")[-1]


def test_upload_that_was_never_committed_is_vacuumed_and_nothing_else(published):
    published.store.write(published.target, ORPHAN, b"x")
    published.store.write(published.target, "shard=0/notes.txt", b"x")
    before = set(published.store.paths(published.target))
    assert published.lake("vacuum").lines == [f"no file at {published.target.uri} can be deleted"]
    listed = published.lake("vacuum", "--grace-hours", "0")
    assert listed.lines == [ORPHAN, "1 file would be deleted; add --execute to do it"]
    assert set(published.store.paths(published.target)) == before
    done = published.lake("vacuum", "--grace-hours", "0", "--execute")
    assert done.lines == [f"1 file deleted at {published.target.uri}"]
    left = {path for path in published.store.paths(published.target) if "_delta_log" not in path}
    assert left == {path for path in before if "_delta_log" not in path} - {ORPHAN}
    assert problems(published, "--read") == []


def test_files_of_versions_that_can_be_read_are_not_vacuumed(published):
    merge_parts(published)
    (outcome,) = published.lake("publish").lines
    assert outcome.endswith(" removed")
    removed = int(outcome.split()[-2])
    (answer,) = published.lake("vacuum", "--grace-hours", "0", "--json").json_lines
    assert answer == {
        "uri": published.target.uri,
        "deleted": False,
        "files": [],
        "within_history": removed,
    }
    assert published.lake("vacuum").lines == [
        f"no file at {published.target.uri} can be deleted",
        f"for versions within lake_history: {removed} files not deleted",
    ]
