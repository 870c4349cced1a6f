"""Goal: bloom filters where they let questions skip groups, and codecs by how columns are read."""

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage_core.parts.part_file import GROUP_ROWS, write_part

GROUPS = 8
ROWS = GROUPS * GROUP_ROWS


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """A part with texts of several kinds."""
    chance = np.random.default_rng(61)
    places = np.arange(ROWS)
    names = np.array([f"name-{number:05}" for number in range(1000)])
    columns = {
        "primary": places,
        "each": [f"order-{number}" for number in places * 2_654_435_761 % 2**32],
        "together": names[places * 1000 // ROWS],
        "everywhere": names[chance.integers(0, 1000, ROWS)],
        "one": ["x"] * ROWS,
        "none": pa.nulls(ROWS, pa.string()),
    }
    path = tmp_path_factory.mktemp("part") / "part.parquet"
    write_part(path, pa.table(columns), ("primary",))
    return path


def bloom_bytes(part, column):
    query = f"SELECT bloom_filter_length FROM parquet_metadata('{part}') WHERE path_in_schema = ?"
    with duckdb.connect() as connection:
        return [row[0] for row in connection.execute(query, [column]).fetchall()]


def test_filter_is_where_values_are_in_few_groups(part):
    assert all(bloom_bytes(part, "each"))
    assert all(bloom_bytes(part, "together"))
    for column in ("everywhere", "one", "none"):
        assert bloom_bytes(part, column) == [None] * GROUPS


def test_filter_is_as_large_as_its_values_need(part):
    assert max(bloom_bytes(part, "together")) < 1024 < min(bloom_bytes(part, "each"))


def test_few_groups_are_taken_for_one_that_has_a_value(part):
    probe = "SELECT count(*) FROM parquet_bloom_probe(?, 'each', ?) WHERE NOT bloom_filter_excludes"
    with duckdb.connect() as connection:
        result = [
            connection.execute(probe, [str(part), f"no-order-{number}"]).fetchall()[0][0]
            for number in range(100)
        ]
    # Of 800 questions to a group's filter.
    assert sum(result) < 8


def test_each_leaf_is_compressed_floats_by_the_codec_that_is_read_fast(tmp_path):
    chance = np.random.default_rng(8).normal(size=5000)
    place = pa.array([{"floor": n % 9, "doors": [{"x": n / 7}]} for n in range(5000)])
    tags = pa.array([[("a", float(n))] for n in range(5000)], pa.map_(pa.string(), pa.float64()))
    rows = pa.table({"address": range(5000), "noise": chance, "place": place, "tags": tags})
    write_part(tmp_path / "part", rows, ("address",))
    group = pq.ParquetFile(tmp_path / "part").metadata.row_group(0)
    leaves = [group.column(at) for at in range(group.num_columns)]
    assert {leaf.path_in_schema: leaf.compression for leaf in leaves} == {
        "address": "ZSTD",
        "noise": "LZ4",
        "place.floor": "ZSTD",
        "place.doors.list.element.x": "ZSTD",
        "tags.key_value.key": "ZSTD",
        "tags.key_value.value": "ZSTD",
    }
