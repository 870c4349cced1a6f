"""Parquet parts, read by Spark's own reader and by other tools."""
