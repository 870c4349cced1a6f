"""Streams that stay open between queries: their readers, typed hot rows, and DuckDBs."""
