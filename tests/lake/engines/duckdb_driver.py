"""DuckDB with its extension for Delta tables: a line of JSON for each line that it is asked.

python -m tests.lake.engines.duckdb_driver PACKAGES < QUESTIONS

Each has the address of a table and columns, and asks for its rows from a primary on.
"""

import json
import sys
from pathlib import Path

import duckdb

from tests.lake.readers.rows import rows_of


def main(packages: Path) -> None:
    """Answer what is asked. The first failure ends it, with its trace."""
    (extension,) = packages.rglob("delta.duckdb_extension*")
    with duckdb.connect() as connection:
        connection.load_extension(str(extension))
        for line in sys.stdin:
            uri, columns, floor = json.loads(line)
            names = ", ".join(f'"{name}"' for name in columns)
            query = f"SELECT {names} FROM delta_scan('{uri}') WHERE \"primary\" >= {floor}"
            rows = connection.sql(query).to_arrow_table().to_pylist()
            print(json.dumps(rows_of(rows)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
