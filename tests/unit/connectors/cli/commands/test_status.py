"""`shardlog streams` and `shardlog status`: figures of real stores, and what is lost."""

import json
import re
import shutil

import pyarrow as pa
import pytest

from connectors.cli.commands.status import _held_back
from connectors.cli.exit_codes import exit_code_for, exit_code_of_fault
from connectors.cli.log_ends import LogEnds
from connectors.cli.output.shard_status import shard_statuses, with_log_end
from connectors.group.partition_files import note_of
from connectors.group.quarantine_notes import (
    WHOLE_TOPIC,
    QuarantineNote,
    QuarantineNotes,
)
from connectors.ingest.assignment import quarantine as set_aside
from connectors.kafka import Partition
from storage_core import Stream, StreamOptions, StreamOrigin, SystemClock, root_id
from storage_core.lake import LakeNote, LakeNotes
from tests.log.serve.served import serving
from tests.unit.connectors.writers import NOWHERE
from tests.waiting import WAIT_MAX_S

ORIGIN = StreamOrigin("kafka", "orders", "topic-id", "integer", "timestamp")
PLAIN = "telemetry"
KAFKA = "orders"


def batch_of(*primaries):
    return pa.RecordBatch.from_pydict(
        {
            "primary": pa.array(primaries, pa.int64()),
            "secondary": pa.array([1] * len(primaries), pa.int32()),
            "payload": pa.array([b"x"] * len(primaries), pa.binary()),
        }
    )


@pytest.fixture
def root(tmp_path):
    """A plain stream of two shards, and a topic's: one dead letter, one gap, one late row."""
    with Stream.create(tmp_path, PLAIN, StreamOptions(shards=2, ahead_max=10**6)) as stream:
        stream.append(1000, 0, b"")
        stream.append(10, 0, b"late")
        stream.append(2**60, 0, b"ahead")
        stream.append(1000, 1, b"")
    Stream.create(tmp_path, KAFKA, StreamOptions(), origin=ORIGIN).close()
    Stream.add_shards(tmp_path, KAFKA, {0: 100})
    with Stream.open(tmp_path, KAFKA) as stream:
        stream.append_batch(
            batch_of(20, 30, 10),
            shard=0,
            addresses=[100, 101, 103],
            source={"next": 104},
            dead_letters={102: b"raw"},
        )
        stream.skip(0, 110, source={"next": 110})
    return tmp_path


def lose_store(root, name):
    """Remove the store of shard 0, and let a writer find out."""
    shutil.rmtree(root / name / "shard-0000" / "db")
    Stream.open(root, name).close()


# --- streams ----------------------------------------------------------------------------------


def test_streams_are_listed_with_what_they_hold(shardlog, root):
    ran = shardlog("streams", root)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        "stream     kind    keys     shards  records  committed  late  dead letters",
        "orders     kafka   integer       1        3        110     1             1",
        "telemetry  stream  id            2        4          4     1             0",
    ]


def test_stream_whose_ids_are_a_field_names_it(shardlog, tmp_path):
    origin = StreamOrigin(
        "kafka", KAFKA, "topic-id", "none", "timestamp", "avro", secondary="field:device"
    )
    Stream.create(tmp_path, KAFKA, StreamOptions(), origin=origin).close()
    assert shardlog("streams", tmp_path).lines[1].split()[:3] == [KAFKA, "kafka", "field:device"]


def test_streams_can_be_listed_as_json(shardlog, root):
    (listed,) = shardlog("streams", root, "--json").json_lines
    assert listed[0] == {
        "stream": "orders",
        "kind": "kafka",
        "keys": "integer",
        "shards": 1,
        "records": 3,
        "committed": 110,
        "late": 1,
        "dead_letters": 1,
        "archived_bytes": 0,
    }


def test_a_root_without_streams_has_an_empty_list(shardlog, root, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "root.json").write_bytes((root / "root.json").read_bytes())
    assert shardlog("streams", tmp_path / "other", "--json").json_lines == [[]]


@pytest.mark.parametrize("command", ["streams", "status"])
def test_a_damaged_stream_does_not_hide_its_neighbours(shardlog, root, command):
    (root / KAFKA / "stream.json").write_text("{}")
    ran = shardlog(command, root)
    assert ran.code == 5
    assert any(line.startswith(PLAIN) for line in ran.lines)
    assert "stream.json" in ran.err


# --- status -----------------------------------------------------------------------------------


def shards_of(ran):
    """Return the table's rows by stream and shard, as dictionaries."""
    said, head, *rows = ran.lines
    assert said.startswith("root ")
    names = re.split(r"  +", head.strip())
    cells = [re.split(r"  +", row.strip()) for row in rows]
    return [dict(zip(names, row, strict=True)) for row in cells]


def test_status_shows_each_shard(shardlog, root):
    ran = shardlog("status", root)
    assert (ran.code, ran.err) == (0, "")
    cells = [
        [row[name] for name in ("stream", "shard", "committed", "records", "late", "dead letters")]
        for row in shards_of(ran)
    ]
    assert cells == [
        ["orders", "0", "110", "3", "1", "1"],
        ["telemetry", "0", "3", "3", "1", "0"],
        ["telemetry", "1", "1", "1", "0", "0"],
    ]


def test_status_leaves_out_what_no_shard_has_and_its_rows_fit_a_terminal(shardlog, tmp_path):
    with Stream.create(tmp_path, PLAIN, StreamOptions(shards=1)) as stream:
        stream.append(1_700_000_000_000, 0, b"")
    ran = shardlog("status", tmp_path)
    (row,) = shards_of(ran)
    named = "stream shard committed lag newest records unsealed size first last"
    assert " ".join(row) == named
    assert max(map(len, ran.lines[1:])) <= 120


def test_status_names_the_root_by_path_and_id(shardlog, root):
    said = shardlog("status", root).lines[0]
    assert said == f"root {root} (id {root_id(root)})"
    (shards,) = shardlog("status", root, PLAIN, "--json").json_lines
    assert {(one["root"], one["root_id"]) for one in shards} == {(str(root), root_id(root))}


def test_status_shows_the_time_of_first_and_last_rows_and_an_age(shardlog, root):
    (row, *_) = shards_of(shardlog("status", root, PLAIN))
    assert row["first"] == "1970-01-01T00:00:01Z"
    assert row["last"] == "1970-01-01T00:00:00Z"
    assert row["newest"].endswith(" d")
    (shards,) = shardlog("status", root, PLAIN, "--json").json_lines
    assert (shards[0]["first"], shards[0]["last"]) == (1000, 10)
    assert shards[0]["age_s"] > 10**9


def test_status_of_a_shard_without_rows_has_no_times(shardlog, tmp_path):
    Stream.create(tmp_path, PLAIN, StreamOptions(shards=1)).close()
    (row,) = shards_of(shardlog("status", tmp_path))
    assert (row["first"], row["last"], row["newest"], row["lag"]) == ("-",) * 4


def test_rows_behind_a_long_gap_are_found(shardlog, root):
    with Stream.open(root, KAFKA) as stream:
        stream.skip(0, 200_000, source={"next": 200_000})
    (shards,) = shardlog("status", root, KAFKA, "--json").json_lines
    assert (shards[0]["first"], shards[0]["last"]) == (20, 10)


def test_brokers_that_do_not_answer_are_told_and_the_rest_is_shown(shardlog, root):
    ran = shardlog("status", root, "--bootstrap", NOWHERE, "--broker-wait=0.2")
    assert (ran.code, len(shards_of(ran))) == (0, 3)
    assert "log ends are not known" in ran.err
    assert ran.err.count("\n") == 1


def test_status_of_one_stream_as_json_names_the_gaps(shardlog, root):
    (shards,) = shardlog("status", root, KAFKA, "--json").json_lines
    assert [shard["stream"] for shard in shards] == [KAFKA]
    assert (shards[0]["gaps"], shards[0]["lost"]) == ([[104, 110]], [])


def test_lost_ranges_are_named_and_end_with_exit_code_5(shardlog, root):
    lose_store(root, PLAIN)
    ran = shardlog("status", root, PLAIN, "--json")
    assert ran.code == 5
    assert json.loads(ran.out)[0]["lost"] == [[0, 3]]
    assert "addresses [0, 3)" in ran.err


def test_what_workers_have_set_aside_is_told_though_its_stream_is_not_there(shardlog, root):
    notes = QuarantineNotes(root)
    notes.write(QuarantineNote("root.json", 3, 1_700_000_000_000, "refused", "no name"))
    notes.write(QuarantineNote(KAFKA, -1, 0, "foreign", "made anew"))
    ran = shardlog("status", root)
    assert ran.err.splitlines() == [
        "quarantined since 1970-01-01T00:00:00+00:00: orders, foreign: made anew",
        "quarantined since 2023-11-14T22:13:20+00:00: root.json shard 3, refused: no name",
    ]
    assert {row["stream"]: row["quarantined"] for row in shards_of(ran)} == {
        KAFKA: "foreign",
        PLAIN: "-",
    }
    assert "root.json" not in shardlog("status", root, KAFKA).err


def test_what_is_set_aside_is_in_the_json_also_where_there_is_no_stream(shardlog, root):
    notes = QuarantineNotes(root)
    notes.write(QuarantineNote("root.json", 3, 7, "refused", "no name"))
    notes.write(QuarantineNote("gone", -1, 8, "foreign", "deleted"))
    notes.write(QuarantineNote(KAFKA, 0, 9, "damage", "torn"))
    (shards,) = shardlog("status", root, "--json").json_lines
    faults = [
        (shard["stream"], shard["shard"], shard["quarantined"])
        for shard in shards
        if shard["quarantined"]
    ]
    assert faults == [
        (KAFKA, 0, {"kind": "damage", "reason": "torn", "since_ms": 9}),
        ("gone", None, {"kind": "foreign", "reason": "deleted", "since_ms": 8}),
        ("root.json", 3, {"kind": "refused", "reason": "no name", "since_ms": 7}),
    ]
    assert len({frozenset(shard) for shard in shards}) == 1


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize(("kind", "code"), [("foreign", 4), ("damage", 5), ("write_failed", 6)])
def test_exit_code_is_that_of_the_oldest_fault(shardlog, root, kind, code, as_json):
    QuarantineNotes(root).write(QuarantineNote(KAFKA, 0, 7, kind, "why"))
    QuarantineNotes(root).write(QuarantineNote(PLAIN, 0, 8, "refused", "why"))
    assert shardlog("status", root, *as_json).code == code
    assert shardlog("status", root, PLAIN, *as_json).code == 2


def test_each_kind_of_fault_has_the_exit_code_of_its_errors():
    for error, kind in set_aside._KINDS:
        assert exit_code_of_fault(kind) == exit_code_for(error("why"))


def test_dead_letters_that_wait_were_forwarded_or_dropped_are_three_figures(shardlog, root):
    with Stream.open(root, KAFKA) as stream:
        letters = dict.fromkeys(range(110, 120), b"raw")
        stream.append_batch(batch_of(), shard=0, addresses=[], dead_letters=letters)
        stream.commit()
        stream.clear_dead_letters(0, range(110, 113))
        stream.clear_dead_letters(0, range(113, 115), outcome="dropped")
    (row,) = shards_of(shardlog("status", root, KAFKA))
    assert [row[name] for name in ("dead letters", "forwarded", "dropped")] == ["6", "3", "2"]
    (shards,) = shardlog("status", root, KAFKA, "--json").json_lines
    names = ("waiting", "forwarded", "dropped")
    assert [shards[0][f"dead_letters_{name}"] for name in names] == [6, 3, 2]
    (listed,) = shardlog("streams", root, "--json").json_lines
    assert listed[0]["dead_letters"] == 6


def test_first_and_last_are_of_the_rows_that_arrived_first_and_last(shardlog, tmp_path):
    with Stream.create(tmp_path, PLAIN, StreamOptions(shards=1, ahead_max=10**6)) as stream:
        for primary in (2**60, 50, 10, 90, 70, 2**60):
            stream.append(primary, 0, b"")
    (shards,) = shardlog("status", tmp_path, "--json").json_lines
    assert (shards[0]["first"], shards[0]["last"]) == (50, 70)
    assert shards[0]["age_s"] == pytest.approx(SystemClock().now_ns() / 10**9 - 0.09, abs=60)


# --- lag --------------------------------------------------------------------------------------


def shard_with(root, ends, note=None):
    """Return the shard of the topic's stream, with what Kafka says of its log's end."""
    ((stored, unit),) = shard_statuses(root, "id", KAFKA, 0)
    return with_log_end(stored, ends, note), unit


@pytest.mark.parametrize(
    ("log_end", "lag", "why"),
    [(117, 7, None), (110, 0, None), (109, None, "ends at 109"), (0, None, "ends at 0")],
)
def test_lag_to_a_log_that_ends_below_what_is_stored_is_not_known(root, log_end, lag, why):
    shard, _ = shard_with(root, LogEnds({0: log_end}, {0: log_end}))
    assert (shard.next_offset, shard.log_end, shard.lag) == (110, log_end, lag)
    assert (shard.lag_unknown is None) == (why is None)
    assert (why or "") in (shard.lag_unknown or "")


def test_open_transaction_holds_back_what_lies_behind_it_and_that_counts_as_lag(root):
    shard, _ = shard_with(root, LogEnds({0: 1011}, {0: 110}))
    assert (shard.log_end, shard.last_stable_offset, shard.held_back) == (1011, 110, 901)
    assert shard.lag == 901
    (line,) = _held_back([(shard, "ms")])
    assert "orders shard 0: an open transaction holds back 901 offsets, from 110" in line


def test_topic_that_is_gone_has_no_lag_and_says_why(root):
    shard, _ = shard_with(root, LogEnds(unknown="the cluster has no topic 'orders'"))
    assert (shard.log_end, shard.lag) == (None, None)
    assert shard.lag_unknown == "the cluster has no topic 'orders'"


@pytest.mark.parametrize(
    ("where", "kind", "lag"),
    [(0, "foreign", None), (WHOLE_TOPIC, "foreign", None), (1, "foreign", 7), (0, "damage", 7)],
)
def test_lag_to_a_log_that_is_set_aside_as_foreign_is_not_known(root, where, kind, lag):
    QuarantineNotes(root).write(QuarantineNote(KAFKA, where, 0, kind, "made anew"))
    note = note_of(QuarantineNotes(root).of_stream(KAFKA), Partition(KAFKA, 0))
    shard, _ = shard_with(root, LogEnds({0: 117}, {0: 117}), note)
    assert (shard.log_end, shard.lag) == (117, lag)


# --- the lake ---------------------------------------------------------------------------------


def publish_by_note(root, published, lake="file:///lake", lineage=None):
    """Have the topic's stream published up to an address, as a worker notes it."""
    with Stream.open(root, KAFKA) as stream:
        stream.alter(lake="file:///lake")
        lineage = lineage or stream.lineage(0)
    LakeNotes(root).write(KAFKA, {0: LakeNote(lake, lineage, published, 0)})


def test_what_the_lake_lacks_is_counted_from_what_a_worker_noted(shardlog, root):
    publish_by_note(root, 102)
    (shards,) = shardlog("status", root, KAFKA, "--json").json_lines
    assert (shards[0]["published"], shards[0]["unpublished"]) == (102, 8)
    assert 0 <= shards[0]["unpublished_age_s"] < WAIT_MAX_S
    header, row = shardlog("status", root, KAFKA).lines[1:]
    assert (
        dict(zip(re.split(r"  +", header), re.split(r"  +", row), strict=True))["unpublished"]
        == "8"
    )


def test_lake_that_has_all_has_no_age(shardlog, root):
    publish_by_note(root, 110)
    (shards,) = shardlog("status", root, KAFKA, "--json").json_lines
    assert (shards[0]["unpublished"], shards[0]["unpublished_age_s"]) == (0, 0)


@pytest.mark.parametrize("other", [{"lake": "file:///other"}, {"lineage": "00" * 16}])
def test_note_of_another_table_or_log_says_nothing(shardlog, root, other):
    publish_by_note(root, 102, **other)
    (shards,) = shardlog("status", root, KAFKA, "--json").json_lines
    assert shards[0]["unpublished"] is None


def test_board_says_what_the_lake_lacks(root):
    publish_by_note(root, 102)
    with serving(root) as served:
        entries = json.loads(served.get("/status").read())["streams"]
    (lake,) = [entry["lake"] for entry in entries if entry["name"] == KAFKA]
    assert (lake["uri"], lake["published"], lake["unpublished"]) == (
        "file:///lake",
        {"0": 102},
        8,
    )
