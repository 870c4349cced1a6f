"""The sink's options: names in any case, what is unknown or contradicts itself is refused."""

from datetime import timedelta

import pytest

from storage_core import InvalidRequestError
from streaming_jobs.sink.options import parse_batch_options, parse_stream_options

PLACE = {"path": "p", "stream": "s"}


def test_path_and_stream_are_all_it_needs():
    options = parse_batch_options(PLACE)
    assert (options.path, options.stream, options.fixed, options.app) == ("p", "s", {}, None)
    assert (options.creation.unit, options.creation.shards, options.lock_wait_s) == ("ms", 4, 30)


@pytest.mark.parametrize("path", ["/a b", "file:/a%20b", "file:///a%20b"])
def test_path_is_a_directory_however_it_is_spelt(path):
    assert parse_batch_options({**PLACE, "path": path}).path == "/a b"


def test_topic_is_another_name_for_the_stream():
    assert parse_batch_options({"path": "p", "topic": "t"}).stream == "t"
    with pytest.raises(
        InvalidRequestError, match="stream 's' and topic 't' name different streams"
    ):
        parse_batch_options({**PLACE, "topic": "t"})


def test_options_of_a_new_stream_are_taken():
    texts = {"unit": "us", "shards": "8", "jitter": "5", "retention": "7d", "LOCKWAIT": "2"}
    options = parse_stream_options({**PLACE, **texts, "keyMode": "dictionary"})
    fixed = {"unit": "us", "shards": 8, "jitter": 5, "key_mode": "dictionary"}
    assert options.fixed == fixed
    assert options.creation.key_mode == "dictionary"
    assert options.creation.retention == timedelta(days=7)
    assert options.lock_wait_s == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": ""}, "option path is missing"),
        ({"path": "hdfs://n/p"}, "option path: 'hdfs://n/p' is not a directory of this machine"),
        ({"stream": ""}, "option stream is missing"),
        ({"shard": "1"}, "unknown option shard"),
        ({"unit": "h"}, "option unit: 'h' is not s or ms or us or ns or sequence"),
        ({"keyMode": "text"}, "option keyMode: 'text' is not none or dictionary"),
        ({"shards": "3"}, "shards: 3 is not a power of two"),
        ({"shards": "many"}, "option shards: 'many' is not a whole number"),
        ({"shards": "8192"}, "shards: 8192 is not an integer from 1 to 4096"),
        ({"jitter": "-1"}, "option jitter: '-1'"),
        ({"retention": "1y"}, "option retention: '1y' is not a duration like"),
        ({"retention": "0s"}, "option retention"),
        ({"retention": "500ms"}, "option retention"),
        ({"retention": "90"}, "option retention: '90' is not a duration like"),
        ({"retention": f"{9**20}w"}, "option retention"),
        ({"retention": "1h", "unit": "sequence"}, "a sequence has no time"),
        ({"lockWait": "-1"}, "option lockWait: '-1' is not a whole number from 0 to 3600"),
        ({"lockWait": "99999"}, "option lockWait: '99999' is not a whole number from 0 to 3600"),
        ({"txnAppId": "a"}, "txnAppId and txnVersion go together"),
        ({"txnVersion": "1"}, "txnAppId and txnVersion go together"),
        ({"txnAppId": "a", "txnVersion": "x"}, "option txnVersion: 'x' is not a whole number"),
        ({"resetQuery": "true"}, "unknown option resetquery; there are columns"),
        ({"IDS": "1"}, "unknown option ids: it is for reading; leave it out"),
        ({"token": "secret"}, "SHARDLOG_SERVER_TOKEN_FILE"),
        ({"caFile": "/ca"}, "SHARDLOG_SERVER_CA_FILE; TLS is asked for by shardlogs://"),
    ],
)
def test_what_does_not_fit_a_batch_write_is_refused(options, said):
    with pytest.raises(InvalidRequestError, match=said):
        parse_batch_options({**PLACE, **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"txnAppId": "a", "txnVersion": "1"}, "are for batch writes"),
        ({"resetQuery": "yes"}, "option resetQuery: 'yes' is not true or false"),
        ({"startingOffsets": "latest"}, "unknown option startingoffsets: it is for reading; leave"),
    ],
)
def test_what_does_not_fit_a_stream_is_refused(options, said):
    with pytest.raises(InvalidRequestError, match=said):
        parse_stream_options({**PLACE, **options})


def test_unknown_option_is_named_before_what_is_missing_or_wrong():
    with pytest.raises(
        InvalidRequestError, match=r"option shard; did you mean shards\?; there are check"
    ):
        parse_stream_options({"shard": "1", "lockWait": "x"})


def test_batch_write_is_told_by_its_app_and_version():
    options = parse_batch_options({**PLACE, "txnappid": "a", "txnversion": "7"})
    assert options.app == ("a", 7)


def names_of(checkpoint):
    options = parse_stream_options({**PLACE, "checkpointlocation": checkpoint, "queryname": "q"})
    return set(options.query_names)


@pytest.mark.parametrize(
    "spelling",
    ["{0}", "{0}/", "file:{0}", "file://{0}", "{0}/../cp", "{0}/../link", "file:{0}/../link/"],
)
def test_checkpoint_has_one_name_however_it_is_spelt(spelling, tmp_path):
    place = tmp_path.resolve() / "cp"
    place.mkdir()
    (place.parent / "link").symlink_to(place)
    assert f"checkpoint:{place}" in names_of(spelling.format(place))


def test_link_that_is_pointed_elsewhere_is_known_by_its_name(tmp_path):
    link = tmp_path / "link"
    for name in ("one", "two"):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / name)
        assert names_of(str(link)) >= {f"checkpoint:{link}", f"checkpoint:{tmp_path / name}"}


def test_relative_checkpoint_is_the_one_below_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert names_of("cp") == names_of(str(tmp_path / "cp"))


@pytest.mark.parametrize("spelling", ["hdfs://host/c/p", "hdfs:/c/p", "file://host/c/p"])
def test_checkpoint_on_another_file_system_keeps_its_name(spelling):
    assert names_of(f"{spelling}/") == {f"checkpoint:{spelling}", "name:q"}


@pytest.mark.parametrize("name", ["a%20b", "a#b", "a?b", "a:b"])
@pytest.mark.parametrize("spelling", ["{0}", "file:{0}", "file://{0}"])
def test_checkpoint_is_synced_where_its_name_says(spelling, name, tmp_path):
    place = tmp_path.resolve() / name
    location = spelling.format(place)
    options = parse_stream_options({**PLACE, "checkpointlocation": location})
    assert set(options.query_names) == {f"checkpoint:{options.checkpoint}"}
    assert options.checkpoint == place


def test_options_of_kafkas_sink_may_stay():
    assert parse_stream_options({**PLACE, "kafka.acks": "all"}).stream == "s"
