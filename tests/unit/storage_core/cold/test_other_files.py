"""Goal: a query that may read other files reads them as they are, whatever was asked before.

Parts never change, so a connection keeps what it read of them; the files of others may.
"""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage_core import Stream, StreamOptions
from storage_core.cold.sql import connect

VALUES = (1111, 2222, 3333)


@pytest.fixture
def prices(tmp_path):
    return tmp_path / "prices.parquet"


def test_file_that_was_written_anew_is_read_anew(tmp_path, prices):
    Stream.create(tmp_path / "root", "st", StreamOptions(shards=1)).close()
    found = []
    with connect(tmp_path / "root", allow_external_access=True) as streams:
        for value in VALUES:
            # Of the same size, and within a second of each other.
            pq.write_table(pa.table({"price": [value] * 1000}), prices)
            for asked in (streams.sql, streams.connection.sql):
                found += asked(f"SELECT min(price), sum(price) FROM '{prices}'").fetchall()
    assert found == [(value, 1000 * value) for value in VALUES for _ in range(2)]
