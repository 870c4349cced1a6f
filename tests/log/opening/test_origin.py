"""A stream with an origin: made without shards, routed by nobody, refused where it is unknown."""

from dataclasses import asdict, replace

import pytest

from storage_core import (
    ForeignDataError,
    InvalidRequestError,
    Stream,
    StreamOptions,
    StreamOrigin,
    StreamReader,
    UnsupportedFormatError,
    describe_stream,
)
from tests.log.on_disk import document, rewrite
from tests.log.topics import NAME, TOPIC
from tests.log.workbench import batch_of


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "pulsar"),
        ("kind", None),
        ("topic", ""),
        ("topic", "a b"),
        ("topic", 5),
        ("topic_id", ""),
        ("topic_id", None),
        ("topic_id", "x" * 65),
        ("key_mode", "text"),
        ("primary", "field"),
        ("primary", "field:at"),
        ("secondary", "field:device"),
        ("secondary", "offset"),
        ("value_format", "csv"),
        ("event_type", "order"),
    ],
)
def test_origin_that_means_nothing_is_refused_by_field(field, value):
    with pytest.raises(InvalidRequestError, match=field):
        StreamOrigin(**{**asdict(TOPIC), field: value})


def test_origin_of_another_type_is_refused_and_nothing_is_made(root):
    with pytest.raises(InvalidRequestError, match="origin is a StreamOrigin, not dict"):
        Stream.create(root, NAME, origin=asdict(TOPIC))  # type: ignore[arg-type]
    assert list(root.iterdir()) == []


def test_origin_is_known_to_writers_and_readers(copy):
    with copy.read_beside() as reader:
        assert (copy.stream.origin, reader.origin) == (TOPIC, TOPIC)


def test_plain_stream_has_no_origin(bench):
    with bench.read_beside() as reader:
        assert (bench.stream.origin, reader.origin) == (None, None)


def test_stream_file_tells_the_origin(copy):
    description = document(copy.directory / "stream.json")
    of_values = {"event_type"}
    expected = {name: value for name, value in asdict(TOPIC).items() if name not in of_values}
    assert {**description, **expected} == description
    assert not of_values & set(description)
    assert description["required_to_read"] == []
    assert (description["shards"], description["format"]) == (0, "shardlog-stream/1")


def test_origin_of_avro_values_is_kept_and_names_a_feature(root):
    made = replace(TOPIC, value_format="avro", primary="field:at", secondary="field:device")
    Stream.create(root, NAME, origin=made).close()
    assert document(root / NAME / "stream.json")["required_to_write"] == ["avro_values"]
    assert describe_stream(root, NAME).origin == made


@pytest.mark.parametrize(
    ("field", "value"),
    [("kind", "pulsar"), ("kind", None), ("key_mode", "text"), ("primary", "field")],
)
@pytest.mark.parametrize("call", [Stream.open, StreamReader.open])
def test_stream_of_an_unknown_kind_is_refused_by_name(copy, call, field, value):
    rewrite(copy.directory / "stream.json", **{field: value})
    with pytest.raises(UnsupportedFormatError, match=rf"{field}: {value!r}.*stream\.json"):
        call(copy.root, NAME)


def test_stream_begins_without_shards_whatever_the_options_say(root):
    with Stream.create(root, NAME, StreamOptions(shards=8), origin=TOPIC) as stream:
        assert stream.commit() == {}
        assert stream.read().num_rows == 0
        assert stream.latest() == {}
        assert stream.options.shards == 8


def test_shard_that_is_not_there_is_an_error_to_open(copy):
    with pytest.raises(InvalidRequestError, match=r"no shards \[3\]; there are none yet"):
        Stream.open(copy.root, NAME, shards=[3])


def test_only_the_shards_named_are_opened(copy):
    copy.add({3: 0, 5: 0})
    assert list(copy.open(3).committed()) == [3]
    with Stream.open(copy.root, NAME, shards=[5]) as beside:
        assert list(beside.committed()) == [5]


@pytest.mark.parametrize(
    "call",
    [
        lambda stream: stream.append(1, 1, b""),
        lambda stream: stream.append_batch(batch_of([1])),
        lambda stream: stream.append_batch(batch_of([1]), addresses=[100]),
        lambda stream: stream.transaction("t", 1),
    ],
)
def test_rows_without_a_shard_are_refused_in_one_line(filled, call):
    with pytest.raises(InvalidRequestError, match=r"^the shards are partitions of an origin") as no:
        call(filled.stream)
    assert "\n" not in str(no.value)
    assert filled.stream.commit() == {3: 100}


def test_rows_without_addresses_are_refused(filled):
    with pytest.raises(InvalidRequestError, match="give the addresses they have there"):
        filled.stream.append_batch(batch_of([1]), shard=3)


def test_all_rows_of_a_batch_go_to_the_shard_named(filled):
    filled.append(3, range(100, 140), secondary=list(range(-20, 20)))
    filled.stream.commit()
    assert filled.addresses(3) == list(range(100, 140))


def test_id_is_found_in_every_shard_that_holds_it(copy):
    copy.add({0: 0, 1: 0, 6: 0})
    copy.open()
    for shard in (0, 1, 6):
        copy.append(shard, [shard], secondary=5)
    copy.stream.commit()
    for reads in (copy.stream, copy.read_beside()):
        assert reads.read(5)["shard"].to_pylist() == [0, 1, 6]
        assert reads.latest(5)[5].shard == 6
        assert reads.earliest(5, 1) == 1


def test_rows_of_any_id_are_no_strays(filled):
    filled.append(3, range(100, 110), secondary=list(range(10)))
    assert filled.strays(3) == 0


def test_lineage_is_that_of_the_shard_wherever_it_is_asked(filled):
    with filled.read_beside() as reader:
        assert reader.lineage(3) == filled.stream.lineage(3)
        assert reader.position().shards[3].lineage == filled.stream.lineage(3)


@pytest.mark.parametrize("shard", [4, -1, "3", None, True, 3.0])
def test_lineage_of_no_shard_is_refused(filled, shard):
    with filled.read_beside() as reader:
        for reads in (filled.stream, reader):
            with pytest.raises(InvalidRequestError, match="there is no shard"):
                reads.lineage(shard)


def test_shard_of_another_lineage_is_not_opened(filled):
    filled.stream.close()
    rewrite(filled.directory / "options.json", shards={"3": "00" * 16})
    with pytest.raises(ForeignDataError, match="another lineage"):
        Stream.open(filled.root, NAME)
