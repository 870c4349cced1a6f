"""Polars, deltalake, DuckDB over the files, and `shardlog sql` find the same rows, at any stage."""

from collections.abc import Callable
from typing import Final

import duckdb
import polars as pl

from tests.lake.readers.readers_lab import ReadersLab
from tests.lake.readers.rows import rows_of
from tests.log.parts.parts_lab import Row


def by_polars(lab: ReadersLab) -> list[Row]:
    return pl.scan_delta(lab.target.uri).select(lab.columns).collect().to_dicts()


def by_deltalake(lab: ReadersLab) -> list[Row]:
    rows: list[Row] = lab.opened().to_pyarrow_table(columns=list(lab.columns)).to_pylist()
    return rows


def by_duckdb(lab: ReadersLab) -> list[Row]:
    files = duckdb.read_parquet(lab.opened().file_uris(), union_by_name=True)
    rows: list[Row] = files.project(lab.quoted).to_arrow_table().to_pylist()
    return rows


READERS: Final[dict[str, Callable[[ReadersLab], list[Row]]]] = {
    "Polars": by_polars,
    "deltalake": by_deltalake,
    "DuckDB": by_duckdb,
}


def test_each_reader_finds_the_rows_of_each_stage(lab, shardlog):
    def check() -> int:
        expected: list[str] = lab.visible_rows(shardlog)
        for name, find in READERS.items():
            assert rows_of(find(lab)) == expected, name
        return len(expected)

    lab.fill_parts()
    count = check()
    lab.evolve()
    lab.fill_parts()
    assert check() == 2 * count
    lab.compact()
    assert check() == 2 * count
    lab.begin_day()
    lab.fill_parts()
    assert check() == 3 * count
    lab.expire_days_before()
    assert check() == count
    lab.check()
    assert lab.vacuum()
    assert check() == count
