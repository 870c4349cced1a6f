"""Goal: what parts hold depends on the rows alone, not on how they were cut as they came.

Method: rows of three schemas, two of one kind, and of none, sound and not, late and not, some
thousands of each so that they are decoded in several steps; cut anywhere, and not at all.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage_core.avro import AvroSchema, encode_batch, frame_of
from storage_core.parts.part_rows import part_rows
from storage_core.parts.payloads import payloads_of
from storage_core.parts.typed_columns import Writer
from tests.log.parts.parts_lab import schema_of

ROWS = 30_000
FIRST = {"name": "x", "type": "int"}
SECOND = {"name": "note", "type": ["null", "string"], "default": None}
SCHEMAS = (schema_of([FIRST], "A"), schema_of([FIRST, SECOND], "A"), schema_of([SECOND], "B"))
WRITERS = [Writer(schema, 7 + number) for number, schema in enumerate(SCHEMAS)]
_untyped: Any = pa


def bodies(writer: Writer, rng: np.random.Generator, count: int) -> list[bytes]:
    columns = {
        "x": _untyped.array(rng.integers(-(10**6), 10**6, count), pa.int32()),
        "note": _untyped.array([None, "a", "é" * 40] * count, pa.string()).slice(0, count),
    }
    names = [each.name for each in writer.schema.fields]
    made: Any = encode_batch(
        pa.table({name: columns[name] for name in names}),
        writer.schema,
        frame=frame_of(writer.schema, writer.registry_id),
    )
    payloads: list[bytes] = made.to_pylist()
    return payloads


def rows_of(rng: np.random.Generator, *, late_share: float, schemas: list[int | None]) -> pa.Table:
    """Return rows as a shard has them; every hundredth value is torn."""
    numbers = rng.choice(len(schemas), ROWS)
    payloads: list[bytes] = [b"raw"] * ROWS
    for place, schema in enumerate(schemas):
        index = np.flatnonzero(numbers == place)
        if schema is not None:
            for row, body in zip(index, bodies(WRITERS[schema], rng, len(index)), strict=True):
                payloads[row] = body[:-1] if row % 100 == 0 else body
    nothing = _untyped.nulls(ROWS)
    result: pa.Table = _untyped.table(
        {
            "shard": _untyped.array(np.zeros(ROWS, np.int32)),
            "secondary": _untyped.array(rng.integers(0, 50, ROWS), pa.int32()),
            "primary": _untyped.array(rng.integers(0, 10**6, ROWS)),
            "address": _untyped.array(np.arange(ROWS)),
            "version": _untyped.array(np.zeros(ROWS, np.uint16)),
            "state": _untyped.array((rng.random(ROWS) < late_share).astype(np.uint8)),
            "key": nothing.cast(pa.binary()),
            "headers": nothing,
            "timestamp": nothing.cast(pa.int64()),
            "timestamp_type": nothing.cast(pa.int8()),
            "payload": _untyped.array(payloads, pa.binary()),
            "schema_id": _untyped.array([schemas[index] for index in numbers], pa.int32()),
            "committed_at_ms": _untyped.array(np.zeros(ROWS, np.int64)),
            "schema": _untyped.array([schemas[index] for index in numbers], pa.int32()),
        }
    )
    return result


def cut(rng: np.random.Generator, rows: pa.Table, pieces: int) -> list[pa.RecordBatch]:
    edges = [0, *np.sort(rng.integers(0, ROWS, pieces - 1)).tolist(), ROWS]
    whole: Any = rows.combine_chunks()
    batch = whole.to_batches()[0]
    return [batch.slice(a, b - a) for a, b in pairwise(edges)]


@pytest.mark.parametrize("schemas", [[1], [0, 1], [None], [0, 1, 2, None]], ids=str)
@pytest.mark.parametrize("late_share", [0, 0.05])
def test_cuts_of_what_came_change_nothing(schemas, late_share):
    rng = np.random.default_rng(5)
    rows = rows_of(rng, late_share=late_share, schemas=schemas)
    whole = list(part_rows(cut(rng, rows, 1), has_keys=False, writers=WRITERS))
    assert sum(item.rows.num_rows for item in whole) == ROWS
    for pieces in (7, 300):
        some = list(part_rows(cut(rng, rows, pieces), has_keys=False, writers=WRITERS))
        assert [(item.kind, item.is_out_of_order) for item in some] == [
            (item.kind, item.is_out_of_order) for item in whole
        ]
        assert all(a.rows.equals(b.rows) for a, b in zip(some, whole, strict=True))


def test_payloads_that_are_left_out_are_made_again_of_what_stays():
    rng = np.random.default_rng(6)
    rows = rows_of(rng, late_share=0, schemas=[0, 1])
    (made,) = part_rows(cut(rng, rows, 40), has_keys=False, writers=WRITERS)
    result: Any = made.rows
    assert result.column("payload").null_count == ROWS - ROWS // 100
    reader: AvroSchema = SCHEMAS[1]
    lookup = dict(enumerate(WRITERS))
    payloads = payloads_of(result, lookup, {"x": "x", "note": "note"}, reader).to_pylist()
    stored: Any = rows.column("payload")
    expected = stored.to_pylist()
    assert payloads == [expected[at] for at in result.column("address").to_pylist()]
