"""Orders: rows whose values have a number of their own each, sealed, and a plain file of DuckDB's.

SHARDLOG_BENCH_ORDER_ROWS says how many there are. They are made anew for each run, unless
SHARDLOG_BENCH_ORDERS names a directory: there they stay, and the next run of as many takes them.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.records import DEVICES, FIRST_PRIMARY, PARTITIONS
from bench.workspace import await_compaction
from storage_core import SchemaEntry, Stream, StreamOptions
from storage_core.avro import AvroSchema, encode_batch, frame_of
from storage_core.lake import publish_stream
from storage_core.sql import connect

ORDER_ROWS: Final = int(os.environ.get("SHARDLOG_BENCH_ORDER_ROWS", "2000000"))
ORDERS: Final = "orders"
_ORDERS_DIRECTORY: Final = os.environ.get("SHARDLOG_BENCH_ORDERS")
_BATCH_ROWS: Final = 20_000
_REGISTRY_ID: Final = 9
_SITES: Final = 200
_STATES: Final = ("NEW", "PAID", "SENT", "DONE", "BACK")
# Odd, so that no two numbers below 2**32 become one; and neighbours lie far apart.
_SCATTER: Final = 2_654_435_761
_FIELDS: Final[dict[str, Any]] = {
    "number": "string",
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "customer": "int",
    "amount": "double",
    "quantity": "int",
    "progress": {"type": "enum", "name": "Progress", "symbols": list(_STATES)},
    "site": "string",
    "voucher": ["null", "int"],
}
ORDER_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": name, "type": kind} for name, kind in _FIELDS.items()],
    }
)
ORDER_FIELDS: Final = tuple(_FIELDS)
_SCHEMA: Final = AvroSchema.parse(ORDER_SCHEMA)
_ENTRIES: Final = (SchemaEntry(_REGISTRY_ID, _SCHEMA.identity, _SCHEMA.text),)
_untyped: Any = pa
_compute: Any = pc


def sealed_orders(workspace: Path) -> Path:
    """Return a root with a stream of orders that are all sealed, their blocks still there.

    Beside it lies `plain`, a file of the same rows and columns that DuckDB wrote as it does.
    """
    place = _place(workspace, "orders")
    root = place / "root"
    if (place / "made").exists():
        return root
    _make(root, StreamOptions(shards=PARTITIONS))
    await_compaction(root)
    with connect(root, [ORDERS], allow_external_access=True) as streams:
        streams.connection.execute(f"COPY (FROM {ORDERS}) TO '{plain_orders(root)}'")
    (place / "made").touch()
    return root


def published_orders(workspace: Path) -> tuple[Path, Path]:
    """Return a root with a stream of orders, and the Delta table that has all of them."""
    place = _place(workspace, "published-orders")
    root, table = place / "root", place / "table"
    if not (place / "made").exists():
        _make(root, StreamOptions(shards=PARTITIONS, lake=str(table)))
        assert publish_stream(root, ORDERS).rows == ORDER_ROWS
        (place / "made").touch()
    return root, table


def _place(workspace: Path, kind: str) -> Path:
    if _ORDERS_DIRECTORY is None:
        return workspace / kind
    return Path(_ORDERS_DIRECTORY) / f"{kind}-{ORDER_ROWS}"


def _make(root: Path, options: StreamOptions) -> None:
    """Make a stream of orders, and seal them."""
    root.mkdir(parents=True)
    with Stream.create(root, ORDERS, options) as stream:
        for first in range(0, ORDER_ROWS, _BATCH_ROWS):
            stream.append_batch(_batch(first), schemas=_ENTRIES)
            stream.commit()
        assert stream.seal().rows == ORDER_ROWS


def plain_orders(root: Path) -> Path:
    """Return the plain file."""
    return root.parent / "plain.parquet"


def order_number(place: int) -> str:
    """Return the number of the order that came at a place."""
    return f"ORD-{place * _SCATTER % 2**32:010}"


def _batch(first: int) -> pa.RecordBatch:
    places = np.arange(first, min(first + _BATCH_ROWS, ORDER_ROWS))
    chance = np.random.default_rng(first)
    rows = len(places)
    numbers = places * _SCATTER % 2**32
    digits = _compute.utf8_lpad(_untyped.array(numbers).cast("string"), 10, "0")
    sites = _untyped.array([f"site-{number:03}" for number in range(_SITES)])
    progress = _untyped.array(_STATES)
    columns: dict[str, Any] = {
        "number": _compute.binary_join_element_wise("ORD", digits, "-"),
        "at": _untyped.array(FIRST_PRIMARY + places - chance.integers(0, 5000, rows)),
        "customer": _untyped.array(chance.integers(0, 10**6, rows).astype(np.int32)),
        "amount": _untyped.array(chance.integers(100, 10**6, rows) / 100),
        "quantity": _untyped.array(chance.integers(1, 20, rows).astype(np.int32)),
        "progress": progress.take(_untyped.array(chance.integers(0, len(_STATES), rows))),
        "site": sites.take(_untyped.array(chance.integers(0, _SITES, rows))),
        "voucher": _untyped.array(places.astype(np.int32) % 100, mask=places % 3 > 0),
    }
    schema = _SCHEMA.arrow_schema()
    values = _untyped.table([columns[one.name].cast(one.type) for one in schema], schema=schema)
    return pa.RecordBatch.from_pydict(
        {
            "primary": _untyped.array(FIRST_PRIMARY + places),
            "secondary": _untyped.array(chance.integers(0, DEVICES, rows).astype(np.int32)),
            "payload": encode_batch(values, _SCHEMA, frame=frame_of(_SCHEMA, _REGISTRY_ID)),
            "schema": _untyped.array(np.zeros(rows, np.int32)),
        }
    )
