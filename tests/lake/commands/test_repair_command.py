"""`shardlog lake repair`: file by file what was done, and what is wrong still."""

from datetime import timedelta

from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_UNAVAILABLE, EXIT_USAGE
from storage_core.lake.image_names import whole_image_name
from tests.lake.commands.command_lab import CommandLab
from tests.lake.support.damaged_logs import lose_marker
from tests.log.parts.parts_lab import NAME


def published_part(lab):
    """Publish, and return a part that the table has as it lies."""
    lab.fill(100)
    assert lab.lake("publish").code == 0
    stored = lab.store.paths(lab.target)
    return next(
        part for part in lab.stream.parts() if whole_image_name(part.shard, part.entry) in stored
    )


def spoil(part):
    part.path.write_bytes(bytes(part.entry.size))


def test_damage_that_is_repaired_is_told_by_its_file_and_range(lab):
    part = published_part(lab)
    spoil(part)
    checked = lab.lake("check", "--read")
    assert (checked.code, part.path.name in checked.out) == (EXIT_DAMAGE, True)
    ran = lab.lake("repair", "--read")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].split() == ["shard", "start", "end", "repaired", "file"]
    first, end = str(part.entry.first), str(part.entry.last + 1)
    assert ran.lines[1].split()[:3] == [str(part.shard), first, end]
    assert "brought from the lake" in ran.lines[1]
    assert ran.lines[2].endswith(f"of {lab.target.uri}: repaired: 1 file; left: no problems")
    assert lab.lake("check", "--read").code == 0


def test_what_nobody_has_is_told_and_ends_with_the_code_of_damage(lab):
    part = published_part(lab)
    spoil(part)
    lab.store.delete(lab.target, whole_image_name(part.shard, part.entry))
    ran = lab.lake("repair", "--read")
    assert ran.code == EXIT_DAMAGE
    assert "left: 2 problems" in ran.lines[-1]
    (answer,) = lab.lake("repair", "--read", "--json").json_lines
    kinds = sorted(problem["kind"] for problem in answer["left"]["problems"])
    assert (answer["repaired"], kinds) == ([], ["gone", "part"])


def test_file_of_the_store_is_uploaded_again(lab):
    part = published_part(lab)
    path = whole_image_name(part.shard, part.entry)
    lab.change(path, lambda data: data[:100] + bytes(4) + data[104:])
    (answer,) = lab.lake("repair", "--read", "--json").json_lines
    assert [(file["kind"], file["file"]) for file in answer["repaired"]] == [("uploaded", path)]
    assert lab.lake("check", "--read").code == 0


def test_what_was_repaired_is_told_beside_a_file_that_the_store_does_not_give(
    tmp_path, bucket_store, shardlog
):
    lab = CommandLab(tmp_path, bucket_store, shardlog)
    lab.fill(100)
    assert lab.lake("publish").code == 0
    paths = sorted(lab.opened_table().files())
    archived, lost, *others = paths
    lab.stream.alter(keep_local=timedelta(0))
    lab.stream.close()
    bucket_store.archive(lab.target, archived)
    bucket_store.delete(lab.target, lost)
    ran = lab.lake("repair", "--read")
    assert (ran.code, ran.err) == (EXIT_UNAVAILABLE, "")
    assert ran.lines[1].split()[-2:] == ["uploaded", lost]
    assert f"{archived} " in ran.lines[3]
    assert ran.lines[4].endswith("repaired: 1 file; left: 1 problem")
    bucket_store.delete(lab.target, others[0])
    ran = lab.lake("repair", "--read", "--json")
    (answer,) = ran.json_lines
    assert (ran.code, answer["repaired"], answer["errors"]) == (EXIT_DAMAGE, [], [])
    kinds = {(problem["kind"], problem["file"]) for problem in answer["left"]["problems"]}
    assert ("unread", archived) in kinds
    publishing = lab.lake("publish")
    assert publishing.code == EXIT_UNAVAILABLE
    assert f"reading {archived} " in publishing.err


def test_root_that_does_not_have_the_stream_is_refused(lab, tmp_path):
    published_part(lab)
    ran = lab.lake("repair", "--from", tmp_path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (EXIT_USAGE, "", 1)
    assert f"no stream {NAME!r}" in ran.err


def test_stream_without_a_table_has_nothing_to_repair(lab):
    lab.fill(10)
    ran = lab.lake("repair")
    assert (ran.code, ran.err) == (0, "")
    assert "there is no table" in ran.lines[0]
    assert ran.lines[1].startswith("  not published yet: 10 rows; `shardlog lake publish`")


def test_shard_whose_log_is_damaged_is_told_beside_what_was_repaired(lab):
    part = published_part(lab)
    path = whole_image_name(part.shard, part.entry)
    lab.store.delete(lab.target, path)
    lab.stream.close()
    lose_marker(lab.root / NAME / f"shard-{1 - part.shard:04}")
    (checked,) = lab.lake("check", "--json").json_lines
    kinds = sorted((problem["kind"], problem["shard"]) for problem in checked["problems"])
    assert kinds == [("gone", part.shard), ("log", 1 - part.shard)]
    ran = lab.lake("repair")
    assert (ran.code, ran.err) == (EXIT_DAMAGE, "")
    assert ran.lines[1].split()[-1] == path
    assert "left: 1 problem" in ran.lines[-1]
    status = lab.lake("status")
    assert (status.code, status.err, len(status.lines)) == (EXIT_DAMAGE, "", 5)
    assert status.lines[-1].startswith(f"  shard {1 - part.shard} cannot be read: ")
