"""A stream at one moment as a view of DuckDB's: its parts, and its other rows as Arrow."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from storage_core.parts.visible_rows import as_sql, visible_rows
from storage_core.sql.moment import Moment
from storage_core.sql.sql_casts import quoted, selected, told_apart

# IMPORTANT: a directory above the root may be called `version=3`; that is no column of the rows.
_AS_WRITTEN: Final = "hive_partitioning = false"
# What tells the view of a stream from one that a caller has put in its place.
OF_A_STREAM: Final = "the rows of a stream"
# Where views of streams are, and where the rows are that are not sealed.
_TABLES: Final = 'memory."main"'
_HOT: Final = 'memory."not sealed"'


def show(
    connection: Any,  # noqa: ANN401 - DuckDB's
    name: str,
    moment: Moment,
    urls: Mapping[str, str],
) -> None:
    """Make a stream a view of its name; `urls` are what DuckDB knows the files of parts by."""
    is_visible = as_sql(visible_rows(moment.looks))
    sources = []
    for columns, one in moment.files:
        listed = ", ".join(f"'{urls[path]}'" for path in one.paths)
        names, shown_here = told_apart(one.schema.names, columns)
        source = (
            f"SELECT {selected(shown_here)} FROM read_parquet([{listed}], {_AS_WRITTEN}){names}"  # noqa: S608 - names are of safe letters
        )
        sources.append(f"{source} WHERE {is_visible}" if one.has_hidden else source)
    for number, (columns, table) in enumerate(moment.hot):
        inner = f"{name} {number}"
        _keep(connection, inner, table)
        source = f"SELECT {selected(columns)} FROM {_HOT}.{quoted(inner)}"  # noqa: S608 - quoted
        sources.append(f"{source} WHERE {is_visible}")
    # Each has all columns, in the same order.
    connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {' UNION ALL '.join(sources)}")
    connection.execute(f"COMMENT ON VIEW {quoted(name)} IS '{OF_A_STREAM}'")


def _keep(connection: Any, name: str, table: pa.Table) -> None:  # noqa: ANN401 - DuckDB's
    """Make rows a view where no list of tables shows it."""
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_HOT}")
    connection.execute(f"USE {_HOT}")
    try:
        connection.from_arrow(table).create_view(name)
    finally:
        connection.execute(f"USE {_TABLES}")
