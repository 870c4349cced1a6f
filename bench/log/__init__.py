"""Rows of the log: append, scan, open, memory; against plain RocksDB and raw files."""
