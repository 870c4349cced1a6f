"""Goal: an export has what reads show at one moment, whole or not there, in forms of the field.

Method: rows of every kind are exported; files are read by the tools they are meant for and compared
with what the log tells. Exports are interrupted by exceptions and by kill -9 between any two files.
"""

import json
from datetime import timedelta
from typing import Any

import fastavro
import numpy as np
import pyarrow.parquet as pq
import pytest

from storage_core import (
    InvalidRequestError,
    LostRangeError,
    StreamReader,
    UnavailableError,
)
from storage_core.export import export_stream, import_stream
from tests.log.parts.interrupting import CALLS_MAX, STEP, StopError, killed, stopped_at
from tests.log.parts.parts_lab import FIRST_MS, FORMS, NAME, PartsLab, whole_rows

FILE_ROWS = 100


@pytest.fixture
def lab(key_mode, root):
    lab = PartsLab(root / "data", key_mode=key_mode)
    rng = np.random.default_rng(41)
    for _ in range(3):
        lab.append(rng, 100)
    yield lab
    lab.stream.close()


@pytest.fixture
def plain_lab(root):
    lab = PartsLab(root / "data")
    lab.append(np.random.default_rng(42), 300)
    yield lab
    lab.stream.close()


def exported(lab, directory, **how):
    return export_stream(lab.root, NAME, directory, **{"file_rows": FILE_ROWS, **how})


def rows_of(lab):
    return whole_rows(lab.root, lab.id_column)


def manifest_of(directory):
    return json.loads((directory / "manifest.json").read_text())


def back(lab, root, directory):
    """Return the rows of an export, as a stream has them once they are in it."""
    import_stream(root / "back", NAME, directory)
    return whole_rows(root / "back", lab.id_column)


def test_manifest_tells_files_rows_schemas_and_places(lab, root):
    report = exported(lab, root / "x")
    reported = manifest_of(root / "x")
    files = [file for chunk in reported["row_ranges"] for file in chunk["files"]]
    present = {path.name for path in (root / "x").iterdir()}
    assert present == {"manifest.json", *(file["name"] for file in files)}
    assert (reported["stream"], reported["file_format"], reported["rows"]) == (NAME, "parquet", 300)
    assert sum(file["rows"] for file in files) == reported["rows"]
    assert reported["bytes"] == report.bytes
    assert sorted(one["id"] for one in reported["schemas"]) == [10, 11, 12]
    ends = {int(shard): one["committed"] for shard, one in reported["exported_shards"].items()}
    assert ends == lab.stream.committed()


def test_avro_files_are_read_by_other_libraries(plain_lab, root):
    exported(plain_lab, root / "x", file_format="avro", codec="deflate")
    rows = {(row["shard"], row["address"]): row for row in rows_of(plain_lab)}
    seen = 0
    for path in sorted((root / "x").glob("*.avro")):
        with path.open("rb") as file:
            item: Any
            for item in fastavro.reader(file):
                row = rows[item["shard"], item["address"]]
                assert item["primary"] == row["primary"]
                seen += 1
                if item.get("value"):
                    assert row["schema_id"] is not None
                    assert row["payload"].startswith(item["frame"])
    assert seen == len(rows)


def test_avro_files_of_the_other_codec_come_back(plain_lab, root):
    exported(plain_lab, root / "x", file_format="avro", codec="zstandard")
    assert back(plain_lab, root, root / "x") == rows_of(plain_lab)


def test_parquet_files_have_the_fields_of_values(plain_lab, root):
    exported(plain_lab, root / "x")
    tables = [pq.read_table(path) for path in sorted((root / "x").glob("*.parquet"))]
    assert sum(table.num_rows for table in tables) == 300
    assert {"temperature", "humidity", "level", "tags"} <= {
        name for table in tables for name in table.schema.names
    }


def test_lines_show_values_to_people(plain_lab, root):
    exported(plain_lab, root / "x", file_format="jsonl")
    lines = [
        json.loads(line)
        for path in sorted((root / "x").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    rows = rows_of(plain_lab)
    assert [(one["shard"], one["address"]) for one in lines] == [
        (row["shard"], row["address"]) for row in rows
    ]
    plain = [row["payload"] for row in rows if row["schema_id"] is None and row["payload"]]
    texts = [one["payload"].encode() for one in lines if str(one.get("payload")).startswith("raw")]
    assert texts == [payload for payload in plain if payload.startswith(b"raw")]
    assert any(isinstance(one.get("value", {}).get("tags"), dict) for one in lines)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_ids_and_times_are_those_that_are_read(plain_lab, root, form):
    request: dict[str, Any] = {
        "ids": [1, 3],
        "start": FIRST_MS + 50_000,
        "end": FIRST_MS + 200_000,
    }
    report = exported(plain_lab, root / "x", file_format=form, **request)
    expected = plain_lab.stream.read(columns=["shard", "address", "payload"], **request).to_pylist()
    assert report.rows == len(expected) > 0
    result = [
        {name: row[name] for name in ("shard", "address", "payload")}
        for row in back(plain_lab, root, root / "x")
    ]
    by_place = sorted(expected, key=lambda row: (row["shard"], row["address"]))
    assert result == by_place
    again = import_stream(root / "back", NAME, root / "x")
    assert (again.rows, again.rows_before) == (0, len(result))


def test_rows_of_keys_are_those_that_are_read(root):
    lab = PartsLab(root / "data", key_mode="dictionary")
    lab.append(np.random.default_rng(43), 200)
    report = exported(lab, root / "x", keys=[b"device-1", None])
    expected = lab.stream.read(keys=[b"device-1", None]).num_rows
    assert report.rows == expected > 0
    assert {row["key"] for row in back(lab, root, root / "x")} == {b"device-1", None}
    lab.stream.close()


def test_what_comes_meanwhile_is_in_no_part_of_it(plain_lab, root):
    before, rng = rows_of(plain_lab), np.random.default_rng(44)
    exported(plain_lab, root / "x", progress=lambda _: plain_lab.append(rng, 5))
    assert back(plain_lab, root, root / "x") == before
    assert len(rows_of(plain_lab)) > len(before)


def test_expired_rows_are_left_out(root):
    lab = PartsLab(root / "data")
    rng = np.random.default_rng(45)
    lab.append(rng, 300)
    lab.append(rng, 300)
    lab.stream.alter(retention=timedelta(seconds=200))
    lab.stream.expire(now=FIRST_MS + 600_000)
    left = lab.rows_left(FIRST_MS + 400_000)
    report = exported(lab, root / "x")
    assert 0 < report.rows == len(left)
    import_stream(root / "back", NAME, root / "x")
    with StreamReader.open(root / "back", NAME) as reader:
        columns = ["shard", "address", "primary", "state"]
        assert reader.read(columns=columns).to_pylist() == left
    lab.stream.close()


def test_second_export_to_a_place_waits_for_the_first(plain_lab, root):
    def again(_):
        with pytest.raises(UnavailableError, match="another process is exporting"):
            exported(plain_lab, root / "x")

    assert exported(plain_lab, root / "x", progress=again).rows == 300


def test_stream_without_rows_is_an_export_without_files(root):
    lab = PartsLab(root / "data")
    assert exported(lab, root / "x").files == 0
    assert back(lab, root, root / "x") == []
    lab.stream.close()


@pytest.mark.parametrize("form", FORMS)
def test_interrupted_export_goes_on_as_of_its_begin(plain_lab, root, form):
    before = rows_of(plain_lab)
    with pytest.raises(StopError):
        exported(plain_lab, root / "x", file_format=form, progress=stopped_at(100))
    assert not (root / "x").exists()
    partial = root / ".x.partial"
    (partial / "0001-left-by-a-crash.parquet").write_bytes(b"half")
    plain_lab.append(np.random.default_rng(46), 50)
    report = exported(plain_lab, root / "x", file_format=form)
    assert report.is_resumed
    assert not partial.exists()
    assert len(list((root / "x").glob("*left*"))) == 0
    assert back(plain_lab, root, root / "x") == before


@pytest.mark.parametrize("other", [{"file_format": "avro"}, {"ids": [1]}, {"end": FIRST_MS}])
def test_interrupted_export_of_something_else_is_refused(plain_lab, root, other):
    with pytest.raises(StopError):
        exported(plain_lab, root / "x", progress=stopped_at(100))
    with pytest.raises(InvalidRequestError, match="an interrupted export of stream 'telemetry'"):
        exported(plain_lab, root / "x", **other)


@pytest.mark.parametrize("damage", [lambda text: text[:-7], lambda text: text + '{"shard": 0'])
def test_line_of_the_journal_that_was_cut_is_written_anew(plain_lab, root, damage):
    with pytest.raises(StopError):
        exported(plain_lab, root / "x", progress=stopped_at(200))
    journal = root / ".x.partial" / "ranges.jsonl"
    journal.write_text(damage(journal.read_text()))
    exported(plain_lab, root / "x")
    assert back(plain_lab, root, root / "x") == rows_of(plain_lab)


def test_kill_between_any_two_files_leaves_no_export_that_is_not_whole(plain_lab, root):
    rows, was_killed = rows_of(plain_lab), True
    for number in range(0, CALLS_MAX, STEP):
        present = root / f"x{number}"
        call = f"export_stream({str(plain_lab.root)!r}, {NAME!r}, {str(present)!r}, file_rows=100)"
        was_killed = killed(call, number)
        if was_killed and not present.exists():
            exported(plain_lab, present)
        import_stream(root / f"back{number}", NAME, present)
        assert whole_rows(root / f"back{number}", plain_lab.id_column) == rows
        if not was_killed:
            break
    assert not was_killed


def test_place_that_has_something_is_refused(plain_lab, root):
    (root / "x").mkdir()
    exported(plain_lab, root / "x")
    with pytest.raises(InvalidRequestError, match="the target exists"):
        exported(plain_lab, root / "x")
    (root / "file").write_text("mine")
    with pytest.raises(InvalidRequestError, match="the target exists"):
        exported(plain_lab, root / "file")
    assert (root / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("how", "reported"),
    [
        ({"file_format": "orc"}, "file_format: 'orc' is not one of"),
        ({"codec": "lzma"}, "codec: 'lzma' is not one of"),
        ({"file_rows": 0}, "file_rows: 0"),
        ({"keys": [b"x"]}, "no key dictionary"),
        ({"start": 2, "end": 1}, "start 2 is above end 1"),
    ],
)
def test_what_cannot_be_exported_is_refused_at_once(plain_lab, root, how, reported):
    with pytest.raises(InvalidRequestError, match=reported):
        exported(plain_lab, root / "x", **how)
    assert [path.name for path in root.iterdir()] == ["data"]


def test_lost_rows_are_told_before_they_are_left_out(root, make_bench):
    bench = make_bench()
    for first in range(0, 50, 10):
        bench.keep(range(first, first + 10))
    bench.close()
    bench.damage_block(20)
    bench.open()
    with pytest.raises(LostRangeError):
        bench.stream.read()
    with pytest.raises(LostRangeError, match="accept-loss"):
        export_stream(bench.root, bench.name, root / "x")
    report = export_stream(bench.root, bench.name, root / "x", without_lost=True)
    assert (report.rows, report.lost) == (40, {0: ((20, 30),)})
    import_stream(root / "back", bench.name, root / "x")
    with StreamReader.open(root / "back", bench.name) as reader:
        assert reader.gaps() == {0: [(20, 30)]}
        assert reader.read().num_rows == 40


def test_export_that_met_a_loss_goes_on_without_it(root, make_bench):
    bench = make_bench()
    for first in range(0, 50, 10):
        bench.keep(range(first, first + 10))
    with pytest.raises(StopError):
        export_stream(bench.root, bench.name, root / "x", file_rows=10, progress=stopped_at(10))
    bench.close()
    bench.damage_block(20)
    bench.open()
    with pytest.raises(LostRangeError):
        bench.stream.read()
    report = export_stream(bench.root, bench.name, root / "x", file_rows=10, without_lost=True)
    assert (report.rows, report.lost, report.is_resumed) == (40, {0: ((20, 30),)}, True)
