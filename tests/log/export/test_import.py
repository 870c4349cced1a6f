"""Goal: an import takes each row once, as it was, and no row that is not proven.

Method: exports are damaged, cut, imported twice, into streams that have other rows, and by
processes that are killed; what the stream has is compared with the one that was exported.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    Stream,
    StreamOptions,
    StreamOrigin,
    StreamReader,
)
from storage_core.export import export_stream, import_stream
from tests.log.export.forging import moved_out
from tests.log.parts.interrupting import CALLS_MAX, STEP, StopError, killed, stopped_at
from tests.log.parts.parts_lab import FIRST_MS, FORMS, NAME, PartsLab, facts_of, whole_rows
from tests.thin import covering

ROWS = 300


@pytest.fixture
def lab(root):
    lab = PartsLab(root / "data")
    lab.append(np.random.default_rng(51), ROWS)
    yield lab
    lab.stream.close()


def exported(lab, directory, **how):
    return export_stream(lab.root, NAME, directory, **{"file_rows": 100, **how})


def rows_back(root):
    return whole_rows(root / "back", "secondary")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@covering("SHARDLOG_FAULT_EXPORT", form=FORMS, damage=[cut, flipped, Path.unlink])
def test_damaged_file_gives_the_rows_before_it_and_an_error_that_names_it(lab, root, form, damage):
    exported(lab, root / "x", file_format=form)
    whole = sorted(path for path in (root / "x").iterdir() if path.name.startswith("0001-"))
    broken = whole[len(whole) // 2]
    whole_data = broken.read_bytes()
    damage(broken)
    with pytest.raises(CorruptionError, match=r"\d+ of its \d+ rows were imported") as raised:
        import_stream(root / "back", NAME, root / "x")
    assert raised.value.path == broken
    taken, rows = rows_back(root), whole_rows(lab.root, lab.id_column)
    of_shards = [[row for row in rows if row["shard"] == shard] for shard in (0, 1)]
    assert taken == of_shards[0] + of_shards[1][: len(taken) - len(of_shards[0])]
    broken.write_bytes(whole_data)
    assert import_stream(root / "back", NAME, root / "x").rows == ROWS - len(taken)
    assert rows_back(root) == rows


def test_cut_file_of_lines_gives_its_own_first_rows(root):
    with Stream.create(root / "data", NAME, StreamOptions(shards=1)) as stream:
        batch = {"primary": range(20_000), "secondary": pa.array([1] * 20_000, pa.int32())}
        stream.append_batch(pa.table({**batch, "payload": [b"x"] * 20_000}))
    export_stream(root / "data", NAME, root / "x", file_format="jsonl")
    (file,) = (root / "x").glob("*.jsonl")
    cut(file)
    with pytest.raises(CorruptionError, match="16384 of its 20000 rows were imported"):
        import_stream(root / "back", NAME, root / "x")
    with StreamReader.open(root / "back", NAME) as reader:
        assert reader.committed() == {0: 16384}


def test_stream_with_other_rows_is_refused_and_keeps_them(lab, root):
    exported(lab, root / "x")
    with Stream.create(root / "back", NAME, StreamOptions(shards=2)) as stream:
        stream.append(FIRST_MS, 1, b"mine")
    before = rows_back(root)
    with pytest.raises(InvalidRequestError, match="the stream has other rows there"):
        import_stream(root / "back", NAME, root / "x")
    assert rows_back(root)[-1:] == before


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"shards": 4}, "stream's shards differs"),
        ({"shards": 2, "jitter": 5}, "stream's jitter differs"),
        ({"shards": 2, "unit": "us"}, "stream's unit differs"),
        ({"shards": 2, "key_mode": "dictionary"}, "stream's key_mode differs"),
    ],
)
def test_stream_of_another_make_is_refused(lab, root, options, reported):
    exported(lab, root / "x")
    Stream.create(root / "back", NAME, StreamOptions(**options)).close()
    with pytest.raises(InvalidRequestError, match=reported):
        import_stream(root / "back", NAME, root / "x")


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_added_to_a_stream_that_has_some_and_once(lab, root, form):
    exported(lab, root / "x", file_format=form)
    with Stream.create(root / "back", "other", StreamOptions(shards=4)) as stream:
        stream.append(FIRST_MS - 1, 1, b"mine")
    report = import_stream(root / "back", "other", root / "x", append=True)
    assert (report.rows, report.rows_before) == (ROWS, 0)
    again = import_stream(root / "back", "other", root / "x", append=True)
    assert (again.rows, again.rows_before) == (0, ROWS)
    result = whole_rows(root / "back", "secondary", "other")
    owner = ("secondary", "primary", "payload", "schema_id", "schema_fingerprint", "timestamp")
    key = [tuple(str(row[name]) for name in owner) for row in result if row["payload"] != b"mine"]
    assert sorted(key) == sorted(
        tuple(str(row[name]) for name in owner) for row in whole_rows(lab.root, lab.id_column)
    )
    assert len(result) == ROWS + 1


def test_rows_of_keys_are_added_to_keys_only(lab, root):
    exported(lab, root / "x")
    Stream.create(root / "back", NAME, StreamOptions(key_mode="dictionary")).close()
    with pytest.raises(InvalidRequestError, match="have key_mode 'none'"):
        import_stream(root / "back", NAME, root / "x", append=True)


def test_killed_import_goes_on(lab, root):
    exported(lab, root / "x")
    was_killed = True
    for number in range(0, CALLS_MAX, STEP):
        place = root / f"back{number}"
        was_killed = killed(f"import_stream({str(place)!r}, {NAME!r}, {str(root / 'x')!r})", number)
        import_stream(place, NAME, root / "x")
        assert whole_rows(place, lab.id_column) == whole_rows(lab.root, lab.id_column)
        if not was_killed:
            break
    assert not was_killed


def test_copy_of_a_topic_goes_on_where_it_stood(root):
    origin = StreamOrigin("kafka", NAME, "id", "integer", "timestamp")
    options = StreamOptions(jitter=3)
    with Stream.create(root / "data", NAME, options, origin=origin):
        Stream.add_shards(root / "data", NAME, {0: 5, 2: 0})
    with Stream.open(root / "data", NAME) as stream:
        appended(stream, 0, [5, 7, 8])
        stream.skip(0, 12)
        appended(stream, 0, [14, 15], source={"next": 20, "epoch": 3})
        appended(stream, 2, [1], source={"next": 2, "epoch": 1})
    export_stream(root / "data", NAME, root / "x", file_format="avro")
    import_stream(root / "back", NAME, root / "x")
    assert whole_rows(root / "back", "secondary") == whole_rows(root / "data", "secondary")
    with StreamReader.open(root / "back", NAME) as reader:
        assert reader.committed() == {0: 20, 2: 2}
        assert reader.gaps() == {0: [(9, 12)], 2: []}
        assert (reader.born(0), reader.source(0)) == (5, {"next": 20, "epoch": 3})
    with (
        StreamReader.open(root / "data", NAME) as handle,
        StreamReader.open(root / "back", NAME) as other,
    ):
        assert handle.gaps() == other.gaps()
    assert facts_of(root / "data") == facts_of(root / "back")
    with pytest.raises(InvalidRequestError, match="gets rows from its topic only"):
        import_stream(root / "back", NAME, root / "x", append=True)


def appended(stream, shard, addresses, **how):
    count = len(addresses)
    columns: dict[str, Any] = {
        "primary": [FIRST_MS + 10 - one for one in addresses],
        "secondary": pa.array([7] * count, pa.int32()),
        "payload": pa.array([None, *[b"\xff\x00"] * (count - 1)], pa.binary()),
        "version": pa.array(range(count), pa.uint16()),
        "key": pa.array([b"k"] * count),
        "headers": [[{"key": "a", "value": b"\xfe"}, {"key": "a", "value": None}]] * count,
        "timestamp_type": pa.array([1] * count, pa.int8()),
        "timestamp": pa.array(addresses, pa.int64()),
    }
    kind = pa.list_(
        pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
    )
    columns["headers"] = pa.array(columns["headers"], kind)
    stream.append_batch(pa.table(columns), shard=shard, addresses=addresses, **how)
    stream.commit()


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_envelopes_come_back_in_other_forms_too(root, form):
    with Stream.create(root / "data", NAME, StreamOptions(shards=1, jitter=1)) as stream:
        appended(stream, 0, [2, 4, 9])
    export_stream(root / "data", NAME, root / "x", file_format=form)
    import_stream(root / "back", NAME, root / "x")
    assert whole_rows(root / "back", "secondary") == whole_rows(root / "data", "secondary")


def test_rows_that_were_ahead_late_or_absorbed_are_so_still(root):
    with Stream.create(root / "data", NAME, StreamOptions(shards=1, jitter=5)) as stream:
        for primary in (10, 7, 1, 10**14, 11):
            stream.append(FIRST_MS + primary, 1, b"x")
    export_stream(root / "data", NAME, root / "x", file_format="avro")
    import_stream(root / "back", NAME, root / "x")
    rows = whole_rows(root / "back", "secondary")
    assert [row["state"] for row in rows] == [0, 0, 1, 2, 0]
    assert facts_of(root / "back") == facts_of(root / "data")


def test_what_is_no_export_is_told_in_a_line(lab, root):
    (root / "empty").mkdir()
    for place in (root / "empty", root / "nowhere"):
        with pytest.raises(InvalidRequestError, match="there is no export"):
            import_stream(root / "back", NAME, place)
    with pytest.raises(StopError):
        exported(lab, root / "x", progress=stopped_at(100))
    for place in (root / "x", root / ".x.partial"):
        with pytest.raises(InvalidRequestError, match="the export was interrupted"):
            import_stream(root / "back", NAME, place)
    assert not (root / "back").exists()


def test_file_that_does_not_lie_in_the_export_is_refused(lab, root):
    exported(lab, root / "x")
    name = moved_out(root / "x")
    with pytest.raises(CorruptionError, match=f"{name!r} is not a file name"):
        import_stream(root / "back", NAME, root / "x")


def test_manifest_that_was_changed_is_refused(lab, root):
    exported(lab, root / "x")
    manifest = root / "x" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"rows": 300', '"rows": 301'))
    with pytest.raises(CorruptionError, match="checksum"):
        import_stream(root / "back", NAME, root / "x")
