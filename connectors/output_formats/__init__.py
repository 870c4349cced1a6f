"""Rows outside the log: as text, CSV, JSON, Parquet and Arrow, on a terminal or in a file."""
