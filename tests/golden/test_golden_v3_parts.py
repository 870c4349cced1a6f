"""Golden stores of format version 3 whose first rows are in parts alone tell all that they told.

Of `v3-parts` the parts have no table of chunks, of `v3-chunks` they have. Of `v3-joined` one zone
stands for several trimmed blocks, and of `v3-blocks` parts have digests of what lies outside chunks
too. `write_v3_parts.py` says what is in them. Every test
works on a copy.
"""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from storage_core import CorruptionError, Environment, StreamReader
from storage_core.testing import ManualClock
from tests.golden.conftest import HERE
from tests.golden.write_v1 import COLUMNS, STREAM, open_later, plain
from tests.golden.write_v3 import told_by


@pytest.fixture(params=["v3-parts", "v3-chunks", "v3-joined", "v3-blocks"])
def store(request, tmp_path):
    root = shutil.copytree(HERE / request.param, tmp_path / "root")
    return root, json.loads((HERE / f"{request.param}.json").read_text())


def features_of(root):
    return json.loads((root / STREAM / "options.json").read_text())["options"]["features"]


def has_table(part):
    return b"SLCT" in part.path.read_bytes()


def test_writer_finds_all_as_it_was_written(store):
    root, expected = store
    with open_later(root) as stream:
        assert told_by(stream) == expected
        assert stream.verify().is_clean


def test_reader_finds_all_as_it_was_written(store):
    root, expected = store
    with StreamReader.open(root, STREAM) as reader:
        assert list(plain(reader.tail(0, columns=COLUMNS))) == expected["rows"]
        rows = reader.read(columns=("address",))
        assert rows.column("address").to_pylist() == expected["order"]
        some = reader.read(1, columns=("address", "payload"))
        of_id = [
            (row["address"], row["payload"]) for row in expected["rows"] if row["secondary"] == 1
        ]
        assert sorted(
            (row["address"], None if row["payload"] is None else row["payload"].hex())
            for row in some.to_pylist()
        ) == sorted(of_id)


def test_stream_names_the_feature_with_its_first_table(store):
    root, expected = store
    with open_later(root) as stream:
        had = [has_table(part) for part in stream.parts()]
        assert set(had) == {"chunk_tables" in features_of(root)}
        stream.seal()
        assert "chunk_tables" in features_of(root)
        assert [has_table(part) for part in stream.parts()] == [*had, True, True]
        assert told_by(stream) == expected


def _place_of_addresses(path):
    metadata = pq.read_metadata(path)
    return metadata.row_group(0).column(metadata.schema.names.index("address")).data_page_offset


def test_damage_is_told(store):
    root, _ = store
    with StreamReader.open(root, STREAM, environment=Environment(ManualClock())) as reader:
        part = reader.parts()[0]
        data = bytearray(part.path.read_bytes())
        data[_place_of_addresses(part.path)] ^= 1
        part.path.write_bytes(data)
        with pytest.raises(CorruptionError, match=rf"{part.path.name}.* as .* published"):
            list(reader.tail(0))
