"""Benchmarks: `python -m bench` measures the log against plain RocksDB and raw files."""
