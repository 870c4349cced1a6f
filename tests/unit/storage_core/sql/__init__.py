"""DuckDB behind SQL over streams."""
