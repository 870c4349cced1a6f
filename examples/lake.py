"""Publish a stream as a Delta table, and let the files of this machine go.

Run it: python examples/lake.py
"""

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from deltalake import DeltaTable

from storage_core import Stream, StreamOptions, StreamReader
from storage_core.lake import publish_stream

FIRST_MS = 1_700_000_000_000


def readings(first: int, end: int) -> pa.Table:
    """Return a reading a second of ten devices in turn."""
    numbers = range(first, end)
    return pa.table(
        {
            "primary": [FIRST_MS + number * 1000 for number in numbers],
            "secondary": [number % 10 for number in numbers],
            "payload": [b"%d degrees" % (20 + number % 3) for number in numbers],
        }
    )


with TemporaryDirectory() as folder:
    # A bucket takes the place of the directory: s3://bucket/readings.
    root, lake = Path(folder, "log"), f"file://{folder}/readings"
    # Of files that the table has none stays on this machine.
    options = StreamOptions(shards=2, lake=lake, keep_local=timedelta(0))
    with Stream.create(root, "readings", options) as stream:
        for first in range(0, 1000, 500):
            stream.append_batch(readings(first, first + 500))
            stream.commit()
            stream.seal()
            print(f"published {publish_stream(root, 'readings').rows} rows")

    # Spark, Polars, DuckDB and any reader of Delta tables find the same rows.
    table = DeltaTable(lake)
    device = table.to_pyarrow_table(filters=[("secondary", "=", 7)])
    print(f"in the table: {device.num_rows} readings of device 7, version {table.version()}")

    left = len([*root.glob("**/parts/*.parquet")])
    with StreamReader.open(root, "readings") as reader:
        rows = reader.read(7)
        print(f"read with {left} files of Parquet left here: {rows.num_rows} readings of device 7")
