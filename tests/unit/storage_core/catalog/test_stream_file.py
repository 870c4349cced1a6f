"""The files of a stream: made once, read or refused by name; nothing is made by a refusal."""

import shutil
from datetime import timedelta

import pytest

from storage_core import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    Stream,
    StreamOptions,
    StreamReader,
    UnsupportedFormatError,
)
from storage_core.catalog.births import create_stream
from storage_core.catalog.changes import locked
from storage_core.catalog.stream_file import check_name, read_stream
from storage_core.platform.durable_file import encode_document, read_document
from tests.log.disks import BesideThread
from tests.log.on_disk import flip_bit

BAD_NAMES = ["", ".", "..", "a/b", "/", "a\x00b", "a b", "ü", "a\n", "a" * 250, "a" * 300, "\\"]
ONE_SHARD = StreamOptions(shards=1)


@pytest.fixture
def stream(root):
    create_stream(root, "clicks", ONE_SHARD)
    return root / "clicks"


def rewrite(path, **fields: object) -> None:
    """Change fields of a document and let its checksum match."""
    path.write_bytes(encode_document(read_document(path) | fields))


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "...", "-", "a" * 249])
def test_name_in_kafkas_alphabet_is_taken(name):
    check_name(name)


@pytest.mark.parametrize("name", [*BAD_NAMES, None, 5, b"clicks"])
@pytest.mark.parametrize("call", [Stream.create, Stream.open, StreamReader.open])
def test_bad_name_is_refused_in_one_line_and_nothing_is_made(root, call, name):
    with pytest.raises(InvalidRequestError) as refusal:
        call(root / "streams", name)
    assert str(refusal.value).startswith("bad stream name")
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 200
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("call", [Stream.open, StreamReader.open])
def test_unknown_stream_is_refused_in_one_line_and_nothing_is_made(stream, call):
    before = sorted(stream.parent.iterdir())
    message = r"^there is no such stream; did you mean clicks\?; there are clicks \(stream 'click'"
    with pytest.raises(InvalidRequestError, match=message):
        call(stream.parent, "click")
    assert sorted(stream.parent.iterdir()) == before


@pytest.mark.parametrize("call", [Stream.open, StreamReader.open])
def test_folder_that_is_no_root_is_refused_and_left_alone(root, call):
    with pytest.raises(InvalidRequestError, match=r"root: there is no such directory.*'clicks'"):
        call(root / "gone", "clicks")
    with pytest.raises(InvalidRequestError, match=r"root: it has no root\.json.*'clicks'"):
        call(root, "clicks")
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("place", ["file", "file/below", "file/further/below"])
@pytest.mark.parametrize("call", [Stream.create, Stream.open])
def test_file_in_place_of_the_root_is_refused(root, call, place):
    (root / "file").touch()
    with pytest.raises(InvalidRequestError, match="not a "):
        call(root / place, "clicks")
    assert (root / "file").stat().st_size == 0


def test_file_in_place_of_the_stream_is_refused(root):
    (root / "clicks").touch()
    for call in (Stream.create, Stream.open):
        with pytest.raises(InvalidRequestError):
            call(root, "clicks")


def test_what_creation_made_is_what_opening_reads(root):
    options = StreamOptions(
        shards=2, unit="us", jitter=5, retention=timedelta(hours=3), sync="interval", codec="zstd"
    )
    made = create_stream(root, "clicks", options)
    assert read_stream(root, "clicks") == made
    assert made.settings.options == options
    assert (made.meta.window, made.meta.unit, made.meta.jitter) == ("hour", "us", 5)


def test_existing_stream_is_not_made_again(stream):
    before = [path.read_bytes() for path in sorted(stream.glob("*.json"))]
    with pytest.raises(InvalidRequestError, match="exists; open it"):
        create_stream(stream.parent, "clicks", StreamOptions(shards=8))
    assert [path.read_bytes() for path in sorted(stream.glob("*.json"))] == before


def test_of_two_creations_one_wins_and_the_other_is_refused(root):
    outcomes: list[object] = []

    def create() -> None:
        try:
            outcomes.append(create_stream(root, "clicks", ONE_SHARD))
        except InvalidRequestError as refusal:
            outcomes.append(str(refusal))

    with BesideThread(create), BesideThread(create):
        pass
    assert sorted(isinstance(outcome, str) for outcome in outcomes) == [False, True]
    assert read_stream(root, "clicks") in outcomes


def test_streams_of_one_root_share_its_id_and_have_their_own_incarnations(root):
    first, second = (create_stream(root, name, ONE_SHARD) for name in ("a", "b"))
    assert first.meta.incarnation != second.meta.incarnation
    assert first.settings.lineages != second.settings.lineages
    assert len(list(root.glob("root.json"))) == 1


def test_creation_goes_on_where_one_stopped(stream):
    (stream / "stream.json").unlink()
    with pytest.raises(InvalidRequestError, match="there is no such stream"):
        read_stream(stream.parent, "clicks")
    create_stream(stream.parent, "clicks", StreamOptions(shards=2))
    assert sorted(read_stream(stream.parent, "clicks").settings.lineages) == [0, 1]


def test_shards_with_data_but_no_stream_json_are_never_cleared(stream):
    (stream / "stream.json").unlink()
    (stream / "shard-0000" / "db").mkdir()
    (stream / "shard-0000" / "db" / "CURRENT").touch()
    with pytest.raises(CorruptionError, match=r"stream\.json is missing"):
        read_stream(stream.parent, "clicks")
    with pytest.raises(CorruptionError, match="shards with data"):
        create_stream(stream.parent, "clicks", ONE_SHARD)
    assert (stream / "shard-0000" / "db").is_dir()


@pytest.mark.parametrize("file", ["stream.json", "options.json", "../root.json"])
def test_flipped_bit_is_told_by_the_file(stream, file):
    flip_bit(stream / file, 30)
    with pytest.raises(CorruptionError, match=file.rpartition("/")[2]):
        read_stream(stream.parent, "clicks")


def test_missing_options_are_damage(stream):
    (stream / "options.json").unlink()
    with pytest.raises(CorruptionError, match=r"options\.json"):
        read_stream(stream.parent, "clicks")


def test_missing_shard_is_damage_and_is_not_made_anew(stream):
    (stream / "shard-0000" / "marker").unlink()
    (stream / "shard-0000").rmdir()
    with pytest.raises(CorruptionError, match=r"missing \(stream 'clicks', shard 0"):
        Stream.open(stream.parent, "clicks")
    assert not (stream / "shard-0000").exists()


def test_stream_under_another_name_is_damage(stream):
    stream.rename(stream.with_name("views"))
    with pytest.raises(CorruptionError, match="names another stream, 'clicks'"):
        read_stream(stream.parent, "views")


@pytest.mark.parametrize("file", ["stream.json", "options.json"])
@pytest.mark.parametrize("call", [Stream.open, StreamReader.open])
def test_file_of_the_stream_that_was_there_before_is_foreign(stream, call, file):
    older = (stream / file).read_bytes()
    shutil.rmtree(stream)
    create_stream(stream.parent, "clicks", ONE_SHARD)
    (stream / file).write_bytes(older)
    with pytest.raises(ForeignDataError, match=r"of two streams.*'clicks'.*options\.json"):
        call(stream.parent, "clicks")


def test_options_must_list_the_shards_of_their_stream(stream):
    rewrite(stream / "options.json", shards={"0": "00" * 16, "1": "11" * 16})
    with pytest.raises(ForeignDataError, match="of two streams"):
        read_stream(stream.parent, "clicks")


def test_altering_a_stream_that_was_made_anew_is_refused(bench):
    moved = bench.directory.rename(bench.root / "moved")
    create_stream(bench.root, bench.name, ONE_SHARD)
    before = (bench.directory / "options.json").read_bytes()
    with pytest.raises(ForeignDataError, match="made anew"):
        bench.stream.alter(payload_bytes_max=9)
    assert (bench.directory / "options.json").read_bytes() == before
    shutil.rmtree(bench.directory)
    moved.rename(bench.directory)


@pytest.mark.parametrize(
    ("file", "fields", "named"),
    [
        ("stream.json", {"format": "shardlog-stream/2"}, "'shardlog-stream/2'"),
        ("stream.json", {"required_to_read": ["cold-tier"]}, "cold-tier"),
        ("stream.json", {"required_to_write": ["merge", "ttl"]}, "merge, ttl"),
        ("options.json", {"format": "shardlog-options/2"}, "'shardlog-options/2'"),
        ("../root.json", {"format": "shardlog-root/2"}, "'shardlog-root/2'"),
    ],
)
@pytest.mark.parametrize("call", [Stream.open, StreamReader.open])
def test_newer_format_is_refused_by_name(stream, call, file, fields, named):
    rewrite(stream / file, **fields)
    with pytest.raises(UnsupportedFormatError, match=rf"{named}.*{file.rpartition('/')[2]}"):
        call(stream.parent, "clicks")


@pytest.mark.parametrize("file", ["stream.json", "options.json", "../root.json"])
@pytest.mark.parametrize("call", [Stream.open, StreamReader.open])
def test_store_of_before_the_first_release_is_refused_in_one_line(stream, call, file):
    before = read_document(stream / file) | {"format_version": 1}
    del before["format"]
    (stream / file).write_bytes(encode_document(before))
    with pytest.raises(
        UnsupportedFormatError, match=r"^written by a version before 0\.1"
    ) as refusal:
        call(stream.parent, "clicks")
    assert "append its rows to a new stream" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_unknown_option_is_refused_by_name(stream):
    options = read_document(stream / "options.json")["options"]
    assert isinstance(options, dict)
    rewrite(stream / "options.json", options={**options, "replicas": 3})
    with pytest.raises(UnsupportedFormatError, match="replicas"):
        read_stream(stream.parent, "clicks")


def test_altered_options_are_there_after_a_reopen(bench):
    changes = {"sync": "interval", "retention": timedelta(days=2), "payload_bytes_max": 9}
    bench.stream.alter(**changes)
    bench.reopen()
    options = bench.shard.options
    assert {name: getattr(options, name) for name in changes} == changes


@pytest.mark.parametrize("name", ["shards", "unit", "jitter", "window", "colour", "incarnation"])
def test_what_may_not_change_is_refused_by_name_and_changes_nothing(bench, name):
    before = (bench.directory / "options.json").read_bytes()
    with pytest.raises(InvalidRequestError, match=f"cannot alter {name}"):
        bench.stream.alter(**{name: 1, "codec": "zstd"})
    assert (bench.directory / "options.json").read_bytes() == before


@pytest.mark.parametrize("change", [{"sync": "never"}, {"wait_max": 5}, {"codec": "gzip"}])
def test_altered_value_that_cannot_work_is_refused(bench, change):
    with pytest.raises(InvalidRequestError, match=next(iter(change))):
        bench.stream.alter(**change)
    assert bench.reopen().committed() == {0: 0}


def test_altered_retention_is_judged_by_the_windows_of_the_stream(make_bench):
    bench = make_bench(retention=timedelta(minutes=10))
    with pytest.raises(InvalidRequestError, match="10000 windows"):
        bench.stream.alter(retention=timedelta(days=30))


def test_altered_limits_hold_at_once(bench):
    bench.stream.alter(payload_bytes_max=3)
    with pytest.raises(InvalidRequestError, match="payload_bytes_max is 3"):
        bench.stream.append(1, 1, b"1234")
    with pytest.raises(InvalidRequestError, match="payload_bytes_max is 3"):
        bench.append([1], payload=b"1234")


def test_opening_does_not_wait_to_clear_up_behind_others(bench):
    bench.append([1])
    bench.close()
    with locked(bench.directory):
        bench.open()
    assert bench.primaries() == [1]
