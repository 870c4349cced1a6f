"""Benchmarks: `python -m bench` measures the log, ingest and Spark, each against its peers."""
