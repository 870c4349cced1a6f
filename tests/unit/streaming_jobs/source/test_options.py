"""Options of the source: every value is checked before a job starts, every mistake is named."""

import json
from datetime import timedelta

import pytest

from storage_core import InvalidRequestError
from streaming_jobs.source.driver.bounds import EARLIEST, LATEST, Bound
from streaming_jobs.source.options import parse_source_options

PLACE = {"path": "/root", "stream": "events"}


def parse(mode=None, **options):
    return parse_source_options({**PLACE, **options}, mode)


def test_defaults_are_those_of_kafkas_source():
    stream, batch = parse("stream"), parse("batch")
    assert stream.starting == Bound(LATEST)
    assert (batch.starting, batch.ending) == (Bound(EARLIEST), Bound(LATEST))
    assert stream.fails_on_loss
    assert (stream.rules.has_late, stream.rules.has_expired) == (True, False)


def test_names_are_taken_in_any_case():
    assert parse(MAXOFFSETSPERTRIGGER="5").admission.offsets_max == 5
    assert parse(maxoffsetspertrigger="5").admission.offsets_max == 5


def test_subscribe_names_the_stream():
    options = {"path": "/root", "subscribe": "events"}
    assert parse_source_options(options).subscription.names == ("events",)


@pytest.mark.parametrize(
    "name",
    [
        "kafka.bootstrap.servers",
        "groupIdPrefix",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "kafkaConsumer.pollTimeoutMs",
    ],
)
def test_options_of_kafkas_source_are_taken(name):
    assert parse(**{name: "1"}).subscription.names == ("events",)


@pytest.mark.parametrize("path", ["/a b", "file:/a%20b", "file:///a%20b"])
def test_path_may_be_written_as_spark_writes_local_ones(path):
    assert parse(path=path).path == "/a b"


def test_path_may_begin_at_home(monkeypatch):
    monkeypatch.setenv("HOME", "/of/mine")
    assert parse(path="~/root").path == "/of/mine/root"


def test_options_of_a_table_of_the_catalog_are_refused_with_what_works():
    made = {"path": "file:/r", "stream": "s", "option.stream": "s", "provider": "shardlog"}
    for options in (made, {}):
        with pytest.raises(InvalidRequestError, match="make a view instead, CREATE TEMPORARY VIEW"):
            parse_source_options(options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"foo": "1"}, "unknown option foo"),
        ({"servers": "a"}, "one option, server, with commas between"),
        ({"token": "secret"}, "SHARDLOG_SERVER_TOKEN_FILE"),
        ({"serverTokenFile": "/t"}, "SHARDLOG_SERVER_TOKEN_FILE"),
        ({"caFile": "/ca"}, "SHARDLOG_SERVER_CA_FILE; TLS is asked for by shardlogs://"),
        ({"server": "a:1"}, "options path and server name two roots: leave one out"),
        ({"path": "~nobody-at-all/root"}, "there is no such home"),
        ({"path": "s3://bucket/root"}, "a directory of this machine"),
        ({"valueformat": "xml"}, "option valueFormat: 'xml' is not raw or avro or json"),
        ({"subscribe": "other"}, "different streams"),
        ({"stream": "a,b"}, "one stream"),
        ({"failondataloss": "maybe"}, "true or false"),
        ({"maxoffsetspertrigger": "0"}, "a whole number from 1"),
        ({"maxoffsetspertrigger": "1.5"}, "a whole number"),
        ({"minoffsetspertrigger": "9", "maxoffsetspertrigger": "5"}, "above maxOffsetsPerTrigger"),
        ({"maxtriggerdelay": "soon"}, "a duration"),
        ({"minpartitions": "-1"}, "a whole number from 1"),
        ({"maxrecordsperpartition": "x"}, "a whole number"),
        ({"startingoffsets": "first"}, "earliest, latest or JSON"),
        ({"startingoffsets": '{"other":{"0":1}}'}, "the stream is 'events'"),
        ({"startingoffsets": '{"events":{"x":1}}'}, "earliest, latest or JSON"),
        ({"startingoffsets": "[]"}, "earliest, latest or JSON"),
        ({"startingoffsets": '{"events":{"0":1},"@":3}'}, "earliest, latest or JSON"),
        ({"startingtimestamp": "noon"}, "a whole number"),
        ({"startingoffsetsbytimestamp": '{"events":{"x":1}}'}, "JSON like"),
        ({"startingoffsetsbytimestampstrategy": "guess"}, "error or latest"),
        ({"columns": "key,nothing"}, "no nothing; there are"),
        ({"columns": "key,values"}, r"no values; did you mean value\?; there are"),
        ({"startingOfsets": "earliest"}, r"did you mean startingOffsets\?"),
        ({"columns": "key,,value"}, "different names"),
        ({"columns": "key,key"}, "different names"),
        ({"startprimary": str(2**63)}, "a whole number to 9223372036854775807"),
        ({"endprimary": str(-(2**63) - 1)}, "a whole number from -9223372036854775808"),
        ({"ids": "1,x"}, "32-bit integers"),
        ({"ids": "4294967296"}, "32-bit integers"),
        ({"keys": "a,b"}, "a JSON list"),
        ({"keys": "[]"}, "a JSON list"),
        ({"keys": "[1]"}, "a JSON list"),
        ({"keys": '["\\ud800"]'}, "a JSON list"),
        ({"keys": '[{"hex": "0"}]'}, "a JSON list"),
        ({"keys": '[{"hex": "00", "text": "a"}]'}, "a JSON list"),
        ({"startprimary": "5", "endprimary": "4"}, "above endPrimary"),
    ],
)
def test_bad_value_is_refused_by_name(options, said):
    with pytest.raises(InvalidRequestError, match=said) as raised:
        parse(**options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("missing", ["path", "stream"])
def test_missing_place_is_told(missing):
    left = {name: value for name, value in PLACE.items() if name != missing}
    with pytest.raises(InvalidRequestError, match=f"option {missing} is missing"):
        parse_source_options(left)


def test_unknown_option_is_named_before_what_is_missing_or_wrong():
    with pytest.raises(
        InvalidRequestError, match="unknown option foo; there are assign, availableNow, col"
    ):
        parse_source_options({"path": "/root", "foo": "1", "ids": "x"})
    with pytest.raises(InvalidRequestError, match="unknown options bar, foo; there are"):
        parse(foo="1", bar="2")


@pytest.mark.parametrize("place", ["-3", "1.5", '"x"', "null", "[]", str(2**63)])
def test_what_is_no_offset_is_told_which_numbers_are(place):
    said = "shard 1 has .*; an offset is a number from 0, or -1 for latest, -2 for earliest"
    with pytest.raises(InvalidRequestError, match=said):
        parse(startingOffsets=f'{{"events":{{"0":4,"1":{place}}}}}')


def test_what_is_no_timestamp_is_told_which_numbers_are():
    with pytest.raises(InvalidRequestError, match="shard 0 has -1; a timestamp is a number from 0"):
        parse(startingOffsetsByTimestamp='{"events":{"0":-1}}')


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_stream_has_no_end(name):
    said = f"option {name} is for batch reads; a stream has no end"
    with pytest.raises(InvalidRequestError, match=said):
        parse("stream", **{name: {"endingTimestamp": "5"}.get(name, "latest")})


def test_all_ends_of_a_stream_are_refused_in_one_line():
    said = "options endingOffsets, endingTimestamp are for batch reads; a stream has no end"
    with pytest.raises(InvalidRequestError, match=said):
        parse("stream", endingOffsets="latest", endingTimestamp="5")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets: latest leaves nothing"),
        ({"endingOffsets": "earliest"}, "endingOffsets: earliest leaves nothing"),
        (
            {"startingOffsets": '{"events":{"0":5,"1":-1}}'},
            "shard 1 at latest, -1, .* leaves nothing",
        ),
        (
            {"endingOffsets": '{"events":{"0":-2,"1":5}}'},
            "shard 0 at earliest, -2, .* leaves nothing",
        ),
    ],
    ids=str,
)
def test_batch_that_leaves_nothing_is_refused_as_kafkas_source_does(options, said):
    with pytest.raises(InvalidRequestError, match=said):
        parse("batch", **options)


@pytest.mark.parametrize("place", [LATEST, EARLIEST])
def test_stream_may_begin_at_either_end_of_a_shard(place):
    offsets = json.dumps({"events": {"0": place}})
    assert parse("stream", startingOffsets=offsets).starting.by_stream == {"events": {0: place}}


def test_limits_of_streams_are_told_to_be_idle_in_a_batch(caplog):
    parse("batch", maxOffsetsPerTrigger="5")
    assert "do nothing in a batch read: maxOffsetsPerTrigger" in caplog.text


def test_timestamp_goes_before_offsets():
    offsets = json.dumps({"events": {"0": 1}})
    parsed = parse(startingTimestamp="9", startingOffsets=offsets)
    assert parsed.starting == Bound(9, is_time=True)


def test_offset_of_a_query_is_taken_as_it_is():
    offset = {"events": {"0": 4}, "@": {"v": 1, "incarnation": "x"}}
    bound = parse(startingOffsets=json.dumps(offset)).starting
    assert bound.by_stream == {"events": {0: 4}}
    assert bound.identity == {"v": 1, "incarnation": "x"}


def test_headers_come_when_asked_for_either_way():
    assert "headers" not in parse().rules.columns
    assert "headers" in parse(includeHeaders="true").rules.columns
    assert parse(columns="headers,key").rules.columns == ("headers", "key")


def test_ids_and_keys_are_lists():
    rules = parse(ids="3, 1,3", keys='["a", null]').rules
    assert (rules.ids, rules.keys) == ((1, 3), (b"a", None))
    assert parse(ids="[4]").rules.ids == (4,)


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("500ms", 500), ("90s", 90_000), ("15m", 900_000), ("7", 7)]
)
def test_delay_is_a_span_of_time(text, delay_ms):
    assert parse(maxTriggerDelay=text).admission.delay_max == timedelta(milliseconds=delay_ms)


@pytest.mark.parametrize("text", [str(2**63 - 1), "99999999999999999h"])
def test_delay_that_no_clock_can_hold_is_without_end(text):
    assert parse(maxTriggerDelay=text).admission.delay_max == timedelta.max


def test_keys_are_texts_bytes_or_none():
    keys_text = '["a", {"hex": "00FF"}, null, "é", {"hex": "61"}]'
    assert parse(keys=keys_text).rules.keys == (b"a", b"\0\xff", None, "é".encode())
