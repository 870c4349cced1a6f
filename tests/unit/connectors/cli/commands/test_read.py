"""`shardlog read`: what it shows of a real store, and how."""

import pyarrow as pa
import pytest

from storage_core import Stream, StreamOptions

NOON_MS = 1_700_049_600_000  # 2023-11-15T12:00:00Z
NAME = "telemetry"


@pytest.fixture
def root(tmp_path):
    """Two ids; the second record of id 1 in time came last."""
    with Stream.create(tmp_path, NAME, StreamOptions(shards=2)) as stream:
        stream.append(NOON_MS, 1, b"noon")
        stream.append(NOON_MS + 2000, 1, b"two later")
        stream.append(NOON_MS, 2, b"\xff\xfe")
        stream.append(NOON_MS + 1000, 1, None)
    return tmp_path


@pytest.fixture
def rows(shardlog, root):
    """Read as JSON with options, which must succeed."""

    def read(*options):
        ran = shardlog("read", root, NAME, "--format", "json", *options)
        assert (ran.code, ran.err) == (0, "")
        return ran.json_lines

    return read


def times_of(rows):
    return [row["primary"] - NOON_MS for row in rows]


# --- which records ----------------------------------------------------------------------------


def test_rows_come_by_id_then_primary_with_late_ones_in_their_place(rows):
    read_rows = rows()
    assert [row["secondary"] for row in read_rows] == [1, 1, 1, 2]
    assert times_of(read_rows) == [0, 1000, 2000, 0]
    assert [row["state"] for row in read_rows] == [0, 1, 0, 0]


def test_start_and_end_are_both_included(rows):
    read_rows = rows("--id", 1, "--start", NOON_MS, "--end", NOON_MS + 1000)
    assert times_of(read_rows) == [0, 1000]


@pytest.mark.parametrize(
    "noon", ["2023-11-15T12:00:01Z", "2023-11-15T13:00:01+01:00", "2023-11-15T12:00:01"]
)
def test_times_stand_for_primaries_without_a_zone_in_utc(rows, noon):
    assert times_of(rows("--id", 1, "--start", noon)) == [1000, 2000]


def test_limit_counts_rows_in_all_and_another_those_of_each_id(rows):
    assert times_of(rows("--limit", 2)) == [0, 1000]
    assert [row["secondary"] for row in rows("--limit-per-id", 1)] == [1, 2]
    assert [row["secondary"] for row in rows("--limit-per-id", 2, "--limit", 3)] == [1, 1, 2]
    read_rows = rows("--limit-per-id", 1, "--limit", 1, "--id", 1, "--id", 2)
    assert [row["secondary"] for row in read_rows] == [1]


def test_latest_is_the_newest_of_each_id_in_their_order(rows):
    assert times_of(rows("--latest")) == [2000, 0]
    assert times_of(rows("--latest", "--id", 2, "--id", 1)) == [2000, 0]


def test_latest_by_shows_the_newest_that_are_no_tombstones(rows):
    assert times_of(rows("--latest-by", "primary")) == [0, 2000, 0]
    assert times_of(rows("--latest-by", "primary", "--tombstones")) == [0, 1000, 2000, 0]
    assert times_of(rows("--latest-by", "key", "--end", NOON_MS + 1000)) == [0]
    read_rows = rows("--latest-by", "key", "--end", NOON_MS + 1000, "--tombstones")
    assert times_of(read_rows) == [1000, 0]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ([], "4"),
        (["--limit", "10", "--id", "1"], "3"),
        (["--limit-per-id", "1"], "2"),
        (["--latest"], "2"),
        (["--latest-by", "primary"], "3"),
        (["--end", NOON_MS], "2"),
    ],
)
def test_count_prints_only_how_many(shardlog, root, options, count):
    assert shardlog("read", root, NAME, "--count", *options).lines == [count]


# --- how they are shown -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("table", ["primary  payload"]),
        ("csv", ["primary,payload,payload_encoding"]),
        ("json", []),
    ],
)
def test_no_rows_leave_only_what_stands_before_rows(shardlog, root, form, lines):
    options = ("--id", 99, "--columns", "primary,payload", "--format", form)
    assert shardlog("read", root, NAME, *options).lines == lines


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--start", "2023-11-15T25:00:00"], "a time such as"),
        (["--end", "yesterday"], "yesterday"),
        (["--columns", "primary,"], "--columns"),
        (["--columns", "weight"], "weight"),
        (["--id", str(2**31)], "ids"),
        (["--start", "2", "--end", "1"], "start"),
        (["--latest", "--limit", "2"], "--latest"),
        (["--latest", "--latest-by", "key"], "--latest"),
        (["--latest-by", "address"], "address"),
        (["--columns", "primry"], "did you mean primary?; there are shard,"),
        (["--columns", "Payload,x"], "unknown columns Payload, x; did you mean payload?"),
        (["--latest", "--columns", "weight"], "primary, time, version, address"),
        (["--count", "--to", "rows.csv"], "--count"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_exit_code_2(shardlog, root, options, complaint):
    ran = shardlog("read", root, NAME, *options)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert ran.err.count("\n") == 1


def test_a_time_is_refused_where_primaries_are_a_sequence(shardlog, tmp_path):
    Stream.create(tmp_path, NAME, StreamOptions(unit="sequence")).close()
    ran = shardlog("read", tmp_path, NAME, "--start", "2023-11-15T12:00:00Z")
    assert ran.code == 2
    assert "integer" in ran.err


# --- streams with a key dictionary ------------------------------------------------------------


@pytest.fixture
def keyed(shardlog, tmp_path):
    """Read as JSON a stream of five rows that belong to keys or to none."""
    with Stream.create(tmp_path, "orders", StreamOptions(key_mode="dictionary")) as stream:
        keys = [b"ann", None, b"\xff", b"ann", "éva".encode()]
        columns = {"primary": [1, 2, 3, 4, 5], "key": pa.array(keys, pa.binary())}
        stream.append_batch(pa.table(columns | {"payload": [b"x"] * 5}))

    def read(*options):
        ran = shardlog("read", tmp_path, "orders", "--format", "json", *options)
        assert (ran.code, ran.err) == (0, "")
        return ran.json_lines

    return read


def test_rows_show_their_key_in_the_place_of_an_id(keyed):
    keyed_rows = keyed()
    assert [row["key"] for row in keyed_rows] == [None, "ann", "ann", "éva", "/w=="]
    assert list(keyed_rows[0])[:3] == ["shard", "key", "primary"]


@pytest.mark.parametrize(
    ("options", "primaries"),
    [
        (["--key", "ann"], [1, 4]),
        (["--key", "éva", "--key", "nobody"], [5]),
        (["--key-hex", "FF"], [3]),
        (["--key-hex", "616e6e", "--null-key"], [2, 1, 4]),
        (["--null-key"], [2]),
        (["--key", "ann", "--latest"], [4]),
        (["--latest"], [2, 4, 5, 3]),
        (["--key", "ann", "--limit", 1], [1]),
    ],
)
def test_keys_choose_rows(keyed, options, primaries):
    assert [row["primary"] for row in keyed(*options)] == primaries
    assert keyed(*options, "--count") == [len(primaries)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--key-hex", "abc"], "--key-hex 'abc': give pairs of hexadecimal digits"),
        (["--latest", "--id", "1"], "read by keys, not by ids"),
    ],
)
@pytest.mark.usefixtures("keyed")
def test_what_does_not_go_with_keys_is_refused_in_a_line(shardlog, tmp_path, options, said):
    ran = shardlog("read", tmp_path, "orders", *options)
    assert ran.code == 2
    assert said in ran.err


@pytest.mark.parametrize("options", [["--key", "a"], ["--key", "a", "--null-key"]])
def test_keys_are_refused_where_there_is_no_dictionary(shardlog, root, options):
    ran = shardlog("read", root, NAME, *options)
    assert ran.code == 2
    assert "read by ids, not by keys" in ran.err


@pytest.mark.usefixtures("keyed")
def test_tail_takes_keys(shardlog, tmp_path):
    ran = shardlog("tail", tmp_path, "orders", "--format", "json", "--key", "ann")
    assert [row["primary"] for row in ran.json_lines] == [1, 4]
    assert list(ran.json_lines[0])[:3] == ["shard", "key", "primary"]


def test_to_a_dash_is_standard_output(shardlog, root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows_of = ("read", root, NAME, "--output=jsonl")
    assert shardlog(*rows_of, "--to=-") == shardlog(*rows_of)
    assert shardlog(*rows_of, "--to=-", "--overwrite").code == 2
    assert not (tmp_path / "-").exists()
