"""Goal: the images of a stream's parts hold its visible rows, each value as it is, and no others.

Method: streams of every kind of row and of every two types are published to a Delta table of a
local directory (shelf.py); what delta-rs reads is compared with SQL, and each image, as the part
that it stands for, with that part.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core import CorruptionError, Environment
from storage_core.lake.casts import as_part, part_columns_of
from storage_core.lake.image_names import image_of_path
from storage_core.parts.part_proof import are_same, read_part
from storage_core.parts.visible_rows import as_condition, visible_rows
from storage_core.sql import connect
from storage_core.testing import ManualClock
from tests.lake.images.shelf import Shelf, Shelved
from tests.log.parts.parts_lab import (
    FIRST_MS,
    NAME,
    PartsLab,
    give_up_a_block,
    schema_of,
)
from tests.log.sql.unlike_types import KINDS, UNREAD, WRAPS, append_pairs, faults_in, pairs_of
from tests.thin import thinned

KEY_MODES = ["none", "dictionary"]
DAY_MS = 86_400_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return where the stream is."""
    return tmp_path / "root"


@pytest.fixture
def shelf(root: Path, tmp_path: Path) -> Shelf:
    """Return an empty table for the stream."""
    return Shelf(root, NAME, tmp_path / "lake")


def addresses_by_sql(lab: PartsLab) -> list[tuple[int, int]]:
    with connect(lab.root) as streams:
        query = f"SELECT shard, address FROM {NAME} ORDER BY shard, address"
        return list(map(tuple, streams.sql(query).fetchall()))


def places_in(shelf: Shelf) -> list[tuple[int, int]]:
    return [(row["shard"], row["address"]) for row in shelf.rows()]


def rows_in(path: Path) -> pa.Table:
    return pa.Table.from_batches(list(read_part(path)))


def visible_rows_of(shelved: Shelved) -> pa.Table:
    """Return the rows of a part that its image stands for."""
    name = image_of_path(shelved.image.path)
    rows: Any = rows_in(shelved.part.path)
    rule = visible_rows({shelved.part.shard: shelved.parts})
    addresses = rows.column("address").to_numpy()
    mask = as_condition(rule, lambda column: rows.column(column).to_numpy())
    mask &= (addresses >= name.first) & (addresses <= name.last)
    table: pa.Table = rows.filter(pa.array(mask))
    return table


def expect_parts_again(shelf: Shelf) -> None:
    """Expect each image to be its part again, with all its columns, bit for bit."""
    for shelved in shelf.shelved:
        path = shelf.directory / shelved.image.path
        rows = rows_in(path)
        again = as_part(rows, rows.schema)
        expected = visible_rows_of(shelved)
        assert list(part_columns_of(rows.schema)) == expected.schema.names
        assert again.schema.types == expected.schema.types
        assert are_same(again, expected)
        assert shelved.image.rows == expected.num_rows
        assert shelved.image.size == path.stat().st_size


@thinned("wrap", WRAPS, count=2)
def test_values_of_every_two_types_are_shown_as_they_are(root, shelf, wrap):
    pairs = pairs_of(KINDS | UNREAD)
    lab = PartsLab(root)
    for _ in range(2):
        append_pairs(lab, pairs, wrap, ("One", "Two"))
        lab.stream.seal()
        shelf.publish()
        assert list(faults_in(shelf.rows()[-2:], pairs, wrap)) == []
    expect_parts_again(shelf)
    lab.stream.close()


@thinned("wrap", WRAPS, count=1)
def test_versions_of_a_schema_in_one_part_are_shown_as_they_are(root, shelf, wrap):
    pairs = pairs_of(KINDS | UNREAD)
    lab = PartsLab(root)
    for _ in range(5):
        append_pairs(lab, pairs, wrap, ("One", "One"))
        lab.stream.seal()
    lab.stream.compact()
    shelf.publish(begin=3)
    assert len({shelved.part for shelved in shelf.shelved}) == 1
    assert list(faults_in(shelf.rows()[:2], pairs, wrap)) == []
    assert list(faults_in(shelf.rows()[-2:], pairs, wrap)) == []
    expect_parts_again(shelf)
    lab.stream.close()


@pytest.mark.parametrize("key_mode", KEY_MODES)
def test_table_has_the_rows_that_sql_shows(root, shelf, key_mode):
    clock = ManualClock(wall_ns=FIRST_MS * 10**6)
    options = {"key_mode": key_mode, "retention": timedelta(days=1)}
    lab = PartsLab(root, Environment(clock=clock), **options)
    chance = np.random.default_rng(7)
    for floor in (0, 390_000, 500_000):
        # Of what comes now some rows are below the floor, and some that came before.
        lab.stream.expire(now=FIRST_MS + floor + DAY_MS)
        lab.append(chance, 400)
        lab.stream.seal()
        shelf.publish(begin=250)
        assert places_in(shelf) == addresses_by_sql(lab)
        expect_parts_again(shelf)
    give_up_a_block(lab.stream)
    shelf.publish()
    assert places_in(shelf) == addresses_by_sql(lab)
    expect_parts_again(shelf)
    lab.stream.close()


def test_part_without_hidden_rows_is_uploaded_as_it_lies(root, shelf):
    lab = PartsLab(root)
    schema = schema_of([{"name": "level", "type": "int"}, {"name": "place", "type": "string"}])
    values = [{"level": number, "place": f"{number}"} for number in range(100)]
    lab.append_values(schema, values, 50)
    lab.stream.seal()
    shelf.publish()
    (shelved,) = shelf.shelved
    assert shelved.image.source == shelved.part.path
    assert image_of_path(shelved.image.path).entry_digest == shelved.part.entry.digest.hex()
    assert [row["level"] for row in shelf.rows()] == list(range(100))
    lab.stream.close()


def test_floats_are_not_left_split_into_streams_of_bytes(root, shelf):
    # Spark's vectorized reader knows those since 4.3, for which there is no Delta.
    lab = PartsLab(root)
    schema = schema_of([{"name": "level", "type": "double"}])
    lab.append_values(schema, [{"level": number / 7} for number in range(1000)], 50)
    lab.stream.seal()
    shelf.publish()
    (shelved,) = shelf.shelved
    assert shelved.image.source != shelved.part.path
    assert [row["level"] for row in shelf.rows()] == [number / 7 for number in range(1000)]
    expect_parts_again(shelf)
    lab.stream.close()


def test_damaged_part_is_not_uploaded(root, shelf):
    lab = PartsLab(root)
    lab.append_orders(100)
    lab.stream.seal()
    (part,) = lab.stream.parts()
    data = bytearray(part.path.read_bytes())
    data[20] ^= 1
    part.path.chmod(0o600)
    part.path.write_bytes(data)
    with pytest.raises(CorruptionError, match="not as"):
        shelf.publish()
    lab.stream.close()
