"""Rows of the log: append, scan, open, memory, many ids; against plain RocksDB and raw files."""
