"""`shardlog lake publish` and `status`: what they say, and that one line says what is wrong."""

from datetime import timedelta

from connectors.cli.exit_codes import EXIT_FOREIGN, EXIT_UNAVAILABLE, EXIT_USAGE
from storage_core import Stream, StreamOptions
from storage_core.lake import lake_target, publish_stream
from tests.log.parts.parts_lab import NAME


def expect_one_line(ran, code, complaint):
    assert (ran.code, ran.out) == (code, "")
    assert complaint in ran.err
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("shardlog: ")


def test_what_is_sealed_is_published_and_counted(lab):
    lab.fill(200)
    ran = lab.lake("publish")
    assert (ran.code, ran.err) == (0, "")
    (line,) = ran.lines
    assert line.startswith(f"{len(lab.places())} rows published at {lab.target.uri}: ")
    lab.check()
    (again,) = lab.lake("publish").lines
    assert (
        again == f"'{NAME}' has nothing to publish: the table at {lab.target.uri} has all its parts"
    )


def test_stream_without_parts_is_told_how_it_gets_some(lab):
    lab.append(lab.rng, 10)
    (line,) = lab.lake("publish").lines
    assert "it has no parts" in line
    assert f"`shardlog seal {lab.root} {NAME}`" in line


def test_files_that_go_from_this_machine_are_told(lab):
    lab.fill(200)
    lab.stream.alter(keep_local=timedelta(0))
    parts = len(lab.stream.parts())
    lines = [*lab.lake("publish").lines, *lab.lake("publish").lines]
    assert len(lines) == 3
    assert lines[1] == f"{parts} files of parts deleted on this machine: the lake has them"


def test_each_shard_is_told_as_json(lab):
    lab.fill(200)
    (shards,) = lab.lake("publish", "--json").json_lines
    assert {each["shard"]: each["end"] for each in shards} == lab.published()
    assert {each["uri"] for each in shards} == {lab.target.uri}
    assert sum(each["rows"] for each in shards) == len(lab.places())


def test_status_tells_how_far_each_shard_is_and_what_waits(lab):
    lab.fill(100)
    before = lab.lake("status")
    assert before.lines[0] == f"table {lab.target.uri}: there is none yet"
    assert lab.lake("publish").err == ""
    lab.append(lab.rng, 50)
    (status,) = lab.lake("status", "--json").json_lines
    committed, shards = lab.stream.committed(), status["shards"]
    assert {each["shard"]: each["committed"] for each in shards} == committed
    assert {each["shard"]: each["published"] for each in shards} == lab.published()
    waiting = {each["shard"]: each["unpublished"] for each in shards}
    assert waiting == {shard: end - lab.published()[shard] for shard, end in committed.items()}
    assert len(lab.lake("status").lines) == 2 + len(committed)


def test_what_a_command_published_is_known_without_the_store(lab, shardlog):
    lab.fill(100)
    assert lab.lake("publish").err == ""
    (shards,) = shardlog("status", lab.root, NAME, "--json").json_lines
    assert {each["shard"]: each["published"] for each in shards} == lab.published()
    assert {each["unpublished"] for each in shards} == {0}


def test_what_is_published_at_another_place_is_not_taken_for_the_lake_s(lab, shardlog, tmp_path):
    lab.fill(100)
    publish_stream(lab.root, NAME, lake_target(str(tmp_path / "elsewhere")))
    (shards,) = shardlog("status", lab.root, NAME, "--json").json_lines
    assert {each["published"] for each in shards} == {None}


def test_stream_without_a_lake_is_told_how_it_gets_one(lab, shardlog):
    with Stream.create(lab.root, "orders", StreamOptions(shards=1)):
        ran = shardlog("lake", "publish", lab.root, "orders")
    expect_one_line(ran, EXIT_USAGE, f"`shardlog alter {lab.root} orders lake=s3://bucket/orders`")


def test_file_of_options_may_be_named_by_the_environment(lab, shardlog, monkeypatch):
    lab.fill(100)
    monkeypatch.setenv("SHARDLOG_LAKE_OPTIONS_FILE", str(lab.root.parent / "options.toml"))
    assert shardlog("lake", "publish", lab.root, NAME).code == 0


def test_file_of_options_that_is_not_there_is_told(lab):
    ran = lab.lake("status", "--lake-options", lab.root / "none.toml")
    expect_one_line(ran, EXIT_USAGE, "the file of lake options cannot be read: no such file")


def test_table_of_another_stream_is_left_alone(lab, shardlog):
    lab.fill(100)
    assert lab.lake("publish").err == ""
    lab.stream.close()
    shardlog("drop", lab.root, NAME, "--execute")
    Stream.create(lab.root, NAME, StreamOptions(shards=1, lake=lab.target.uri)).close()
    for verb in ("publish", "status", "check", "vacuum"):
        ran = lab.lake(verb)
        assert (ran.code, ran.out) == (EXIT_FOREIGN, ""), verb
        assert ran.err.count("\n") == 1


def test_store_that_cannot_be_used_is_told_by_one_line(tmp_path, bucket_store, shardlog):
    options = tmp_path / "options.toml"
    lines = [f'{name} = "{value}"' for name, value in bucket_store.options.items()]
    options.write_text("\n".join(lines))
    missing = StreamOptions(shards=1, lake=f"s3://{bucket_store.bucket}-none/{NAME}")
    with Stream.create(tmp_path / "log", NAME, missing) as stream:
        stream.append(1, 1, b"x")
        stream.commit()
        stream.seal()
    ran = shardlog("lake", "publish", tmp_path / "log", NAME, "--lake-options", options)
    assert ran.code in (EXIT_USAGE, EXIT_UNAVAILABLE)
    expect_one_line(ran, ran.code, f"{bucket_store.bucket}-none")
    assert "tester's secret" not in ran.err


def test_place_that_is_no_directory_is_told_as_what_must_be_set_otherwise(tmp_path, shardlog):
    file = tmp_path / "file"
    file.write_text("a file of somebody")
    with Stream.create(tmp_path / "log", NAME, StreamOptions(shards=1)) as stream:
        stream.append(1, 1, b"x")
        stream.commit()
        stream.seal()
    for place in (file, file / "below"):
        assert shardlog("alter", tmp_path / "log", NAME, f"lake={place}").code == 0
        ran = shardlog("lake", "publish", tmp_path / "log", NAME)
        expect_one_line(ran, EXIT_USAGE, "no directory")
