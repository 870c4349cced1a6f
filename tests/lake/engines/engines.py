"""The engines, each as a function from the lab to the rows that it finds.

A file of the table goes once all of it has expired: until then who reads the table filters.
"""

from collections.abc import Callable
from typing import Any, Final

import duckdb
import polars as pl
from deltalake import DeltaTable

from storage_core import StreamReader
from storage_core.sql import connect
from tests.lake.engines.engines_lab import ENVELOPE, NAME, EnginesLab
from tests.lake.engines.readings import Fields
from tests.log.served import served

# Arrow has them as numbers where Python has no type for them.
_NANOSECONDS: Final = "at_timestamp_ns"
_MAP: Final = "marks"
Find = Callable[[EnginesLab], list[Fields]]


def by_deltalake(lab: EnginesLab) -> list[Fields]:
    table = DeltaTable(lab.target.uri)
    rows: list[Fields] = table.to_pyarrow_table(
        columns=lab.table_columns, filters=[("primary", ">=", lab.floor)]
    ).to_pylist()
    return rows


def by_polars(lab: EnginesLab) -> list[Fields]:
    left = pl.scan_delta(lab.target.uri).filter(pl.col("primary") >= lab.floor)
    rows = left.select(lab.table_columns).collect().to_dicts()
    # It has a map as a dictionary, as it has a record.
    return [row | {_MAP: _pairs(row[_MAP])} if row.get(_MAP) is not None else row for row in rows]


def by_duckdb(lab: EnginesLab) -> list[Fields]:
    uris = DeltaTable(lab.target.uri).file_uris()
    files = duckdb.read_parquet(uris, union_by_name=True, hive_partitioning=True)
    left = files.filter(f'"primary" >= {lab.floor}').project(_quoted(lab.table_columns))
    rows: list[Fields] = left.to_arrow_table().to_pylist()
    return rows


def by_sql(lab: EnginesLab) -> list[Fields]:
    return _by_sql(lab, lab.root)


def by_sql_of_a_server(lab: EnginesLab) -> list[Fields]:
    with served(lab.root) as address:
        return _by_sql(lab, address)


def by_reader(lab: EnginesLab) -> list[Fields]:
    return _by_reader(lab.root)


def by_reader_of_a_server(lab: EnginesLab) -> list[Fields]:
    with served(lab.root) as address:
        return _by_reader(address)


OF_TABLE: Final[dict[str, Find]] = {
    "deltalake": by_deltalake,
    "Polars": by_polars,
    "DuckDB over the files": by_duckdb,
}
OF_SQL: Final[dict[str, Find]] = {"SQL": by_sql, "SQL over a server": by_sql_of_a_server}
OF_LOG: Final[dict[str, Find]] = {
    "StreamReader": by_reader,
    "StreamReader over a server": by_reader_of_a_server,
}


def _by_sql(lab: EnginesLab, place: Any) -> list[Fields]:
    with connect(place) as streams:
        in_ns = f'epoch_ns("{_NANOSECONDS}")'
        columns = _quoted(lab.sql_columns).replace(
            f'"{_NANOSECONDS}"', f'{in_ns} AS "{_NANOSECONDS}"'
        )
        query = f"SELECT {columns} FROM {NAME}"
        rows: list[Fields] = streams.sql(query).to_arrow_table().to_pylist()
    return rows


def _by_reader(place: Any) -> list[Fields]:
    with StreamReader.open(place, NAME) as reader:
        rows: list[Fields] = reader.read(columns=list(ENVELOPE)).to_pylist()
    return rows


def _quoted(columns: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _pairs(entries: Any) -> list[tuple[str, Any]]:
    return list(entries.items()) if isinstance(entries, dict) else entries
