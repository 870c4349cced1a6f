"""DuckDB as it is opened: what it may take, and what it says of that."""

import duckdb
import pytest

from storage_core.cold.engine import opened, told

SORTED = "SELECT range, md5(range::VARCHAR) AS text FROM range(2_000_000) ORDER BY text"


def test_disk_for_what_does_not_fit_memory_is_bounded():
    connection = opened(64 * 2**20)
    (bound,) = connection.execute("SELECT current_setting('max_temp_directory_size')").fetchone()
    assert (
        bound
        != duckdb.connect().execute("SELECT current_setting('max_temp_directory_size')").fetchone()
    )
    connection.execute("SET max_temp_directory_size = '10MiB'")
    with pytest.raises(duckdb.Error) as raised:
        connection.execute(SORTED).to_arrow_table()
    connection.close()
    assert "more disk than it may" in told(str(raised.value))
    assert "TMPDIR" in told(str(raised.value))
    assert "\n" not in told(str(raised.value))
