"""DuckDB as it is opened: what it may take, what it may reach, and what it says of that."""

import duckdb
import pytest

from storage_core import InvalidRequestError
from storage_core.sql import engine
from storage_core.sql.engine import EngineOptions, open_engine
from storage_core.sql.part_files import PartFiles
from storage_core.sql.query_errors import one_line

SORTED = "SELECT range, md5(range::VARCHAR) AS text FROM range(2_000_000) ORDER BY text"


def opened(**options):
    return open_engine(EngineOptions(**options), PartFiles(verify_checksums=True))


def test_disk_for_what_does_not_fit_memory_is_bounded():
    connection = opened(memory_bytes_max=64 * 2**20, allow_external_access=True)
    (bound,) = connection.execute("SELECT current_setting('max_temp_directory_size')").fetchone()
    assert (
        bound
        != duckdb.connect().execute("SELECT current_setting('max_temp_directory_size')").fetchone()
    )
    connection.execute("SET max_temp_directory_size = '10MiB'")
    with pytest.raises(duckdb.Error) as raised:
        connection.execute(SORTED).to_arrow_table()
    connection.close()
    assert "more than its disk limit" in one_line(str(raised.value))
    assert "TMPDIR" in one_line(str(raised.value))
    assert "\n" not in one_line(str(raised.value))


def test_extension_is_neither_installed_nor_loaded_unless_that_is_allowed():
    names = ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access")
    settings = ", ".join(f"current_setting('{name}')" for name in names)
    for allowed in (False, True):
        connection = opened(allow_external_access=allowed)
        assert connection.execute(f"SELECT {settings}").fetchone() == (allowed,) * 3
        connection.close()


def test_fsspec_that_is_not_installed_is_told_with_how_to_have_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "storage_core.sql.part_file_system", None)
    with pytest.raises(InvalidRequestError, match=r"pip install 'shardlog\[sql\]'"):
        engine.open_engine(EngineOptions(), PartFiles(verify_checksums=True))
