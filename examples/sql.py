"""Run SQL over streams: rows in Parquet files and rows that are not sealed yet are one table.

Run it: python examples/sql.py
"""

from tempfile import TemporaryDirectory

import pyarrow as pa

from storage_core import Stream, StreamOptions
from storage_core.sql import connect

FIRST_MS = 1_700_000_000_000
# Values are JSON here. Of Avro values each field is a column by itself.
MEAN = """
    SELECT secondary AS device, count(*) AS readings,
           avg((decode(payload) ->> 'temperature')::DOUBLE) AS mean
    FROM readings GROUP BY device ORDER BY device
"""


def readings(first: int, end: int) -> pa.Table:
    """Return a reading a second of three devices in turn."""
    numbers = range(first, end)
    return pa.table(
        {
            "primary": [FIRST_MS + number * 1000 for number in numbers],
            "secondary": [number % 3 for number in numbers],
            "payload": [b'{"temperature": %d}' % (20 + number % 3) for number in numbers],
        }
    )


with TemporaryDirectory() as root:
    with Stream.create(root, "readings", StreamOptions(shards=1)) as stream:
        stream.append_batch(readings(0, 900))
        stream.commit()
        stream.seal()
        stream.append_batch(readings(900, 999))
        stream.commit()
        print(f"{sum(part.entry.rows for part in stream.parts())} of 999 rows are in Parquet")

    with connect(root) as streams:
        for device, count, mean in streams.sql(MEAN).fetchall():
            print(f"device {device}: {count} readings, {mean} degrees on average")
